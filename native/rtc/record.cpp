// Writes the records of one process. Runs on the program's threads, while they wait for a compiler.
#include "rtc/record.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <list>
#include <mutex>
#include <system_error>

#include "core/unique_fd.hpp"
#include "rtc/its_library.hpp"

namespace kerncap::rtc {
namespace {

// Read when the library is loaded, because the program may change its environment. Never destroyed: threads may compile while
// the program ends.
const std::string& g_folder = *new std::string([] {
  const char* folder = ::getenv("KERNCAP_RTC_RECORDS");
  return std::string(folder != nullptr ? folder : "");
}());
std::atomic<unsigned> g_number{0};
constexpr std::size_t k_large = 64 << 10;
constexpr std::size_t k_most_texts = 16;

[[noreturn]] void fail() { throw std::system_error(errno, std::generic_category()); }

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Returns the file's name. The time tells processes of one number apart, in other namespaces or after this one has ended.
std::string write_file(std::string_view text, const char* suffix) {
  timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME, &now);
  const std::string name = std::to_string(::getpid()) + "-" + std::to_string(g_number.fetch_add(1)) + "-" +
                           std::to_string(now.tv_sec) + "-" + std::to_string(now.tv_nsec);
  const std::string part = g_folder + "/" + name + ".part";
  const std::string whole = g_folder + "/" + name + suffix;
  {
    const core::UniqueFd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file.valid()) fail();
    write_all(file.get(), text);
  }
  if (::rename(part.c_str(), whole.c_str()) != 0) fail();
  return name + suffix;
}

struct KeptText {
  std::string text;
  std::string file;
};

std::mutex g_mutex;                              // guards the texts
std::list<KeptText>& g_texts = *new std::list<KeptText>;

// The file that holds this text, which is written once: hipRTC passes the same half a megabyte with each program. Empty if there are
// too many, or if another thread is here: it may have been, when this process was forked.
std::string keep_text(std::string_view text) {
  const std::unique_lock<std::mutex> lock(g_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return {};
  for (const KeptText& kept : g_texts) {
    if (kept.text == text) return kept.file;
  }
  if (g_texts.size() >= k_most_texts) return {};
  g_texts.push_back({std::string(text), write_file(text, ".text")});
  return g_texts.back().file;
}

}  // namespace

std::string working_folder() {
  std::string folder(PATH_MAX, '\0');
  return ::getcwd(folder.data(), folder.size()) != nullptr ? std::string(folder.c_str()) : std::string();
}

bool recording() noexcept { return !g_folder.empty(); }

void Record::add(std::string_view name, std::string_view value) {
  m_text.append(name).append(" ").append(std::to_string(value.size())).append("\n").append(value).append("\n");
}

void Record::add_text(const std::string& name, std::string_view text) {
  const std::string file = text.size() < k_large ? std::string() : keep_text(text);
  if (file.empty()) return add(name, text);
  add(name + "_file", file);
}

void Record::write() const { (void)write_file(m_text, ".rtc"); }

void report(std::string_view why) noexcept {
  try {
    const core::UniqueFd file(::open((g_folder + "/errors").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (file.valid()) write_all(file.get(), std::string(why) + "\n");
  } catch (...) {  // there is nobody else to tell
  }
}

}  // namespace kerncap::rtc
