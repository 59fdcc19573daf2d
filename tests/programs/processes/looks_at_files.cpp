// What a C++ program and the C library's own walkers see of the driver's files: a line for each question, "what: answer".
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;

namespace {

void say(const char* what, const std::string& answer) { std::printf("%s: %s\n", what, answer.c_str()); }

std::string scanned(const char* path) {
  dirent** list = nullptr;
  const int count = scandir(path, &list, nullptr, alphasort);
  std::string names;
  for (int i = 0; i < count; ++i) names.append(names.empty() ? "" : " ").append(list[i]->d_name);
  return names;
}

std::string globbed(const char* pattern) {
  glob_t found{};
  std::string paths;
  if (glob(pattern, 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) paths.append(paths.empty() ? "" : " ").append(found.gl_pathv[i]);
  }
  globfree(&found);
  return paths;
}

std::string walked(const char* path) {
  std::string names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    names.append(names.empty() ? "" : " ").append(entry.path().filename()).append(entry.is_directory() ? "/" : "");
  }
  return names;
}

// By descriptors alone, as fts and find do.
std::string by_descriptor() {
  const int folder = openat(AT_FDCWD, "/sys/class/kfd/kfd/topology", O_RDONLY | O_DIRECTORY);
  struct stat status {};
  std::string answer = fstat(folder, &status) == 0 && S_ISDIR(status.st_mode) ? "folder" : "no folder";
  const int file = openat(folder, "generation_id", O_RDONLY);
  char first = '?';
  answer += read(file, &first, 1) == 1 ? std::string(" ") + first : " nothing";
  if (fstatat(folder, "nodes", &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode)) answer += " no nodes";
  DIR* listed = fdopendir(folder);
  const ino_t number = status.st_ino;
  while (const dirent* entry = readdir(listed)) {
    if (std::string(entry->d_name) == "nodes") answer += entry->d_ino == number ? " same" : " another";
  }
  closedir(listed);
  close(file);
  return answer;
}

}  // namespace

int main() {
  say("exists", fs::exists("/dev/kfd") && fs::is_character_file("/dev/dri/renderD128") ? "yes" : "no");
  struct stat status {};
  say("render", stat("/dev/dri/renderD128", &status) == 0
                    ? std::to_string(major(status.st_rdev)) + ":" + std::to_string(minor(status.st_rdev))
                    : "none");
  say("access", access("/dev/kfd", R_OK | W_OK) == 0 && faccessat(AT_FDCWD, "/dev/kfd", X_OK, 0) != 0 ? "yes" : "no");
  say("canonical", fs::canonical("/sys/class/drm/renderD128/device").string());
  char resolved[PATH_MAX];
  say("realpath", realpath("/sys/class/kfd/kfd/topology/../topology/nodes/1", resolved) != nullptr ? resolved : "none");
  say("link", fs::read_symlink("/sys/class/drm/card0/device/driver").string());
  say("scandir", scanned("/dev/dri"));
  say("glob", globbed("/sys/class/drm/card*/device/vendor"));
  say("walk", walked("/sys/module/amdgpu"));
  say("descriptor", by_descriptor());
  std::ifstream file("/sys/class/drm/card0/device/vendor");
  std::string vendor;
  std::getline(file, vendor);
  say("vendor", vendor);
  const int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
  say("opened", fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) ? "device" : "no device");
  say("missing", fs::exists("/dev/dri/renderD200") || fs::exists("/sys/class/kfd/nothing") ? "there" : "missing");
  say("others", fs::exists("/dev/null") && fs::exists("/sys/class") ? "there" : "missing");
}
