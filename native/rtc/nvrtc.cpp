// Records programs that NVRTC compiles. What is known of a program is kept from its creation to its end.
#include "rtc/nvrtc.hpp"

#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rtc/its_library.hpp"
#include "rtc/record.hpp"

namespace kerncap::rtc {
namespace {

struct Program {
  std::string name;
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text
  std::vector<std::string> expressions;
};

std::mutex g_mutex;                              // guards the programs
std::map<NvrtcProgram, Program>& g_programs = *new std::map<NvrtcProgram, Program>;

// The program's own failure to be recorded must not be the caller's.
template <typename Work>
void try_to(Work work) noexcept {
  if (!recording()) return;
  try {
    work();
  } catch (const std::exception& error) {
    report(error.what());
  }
}

using GetSize = NvrtcResult(NvrtcProgram, std::size_t*);
using GetCode = NvrtcResult(NvrtcProgram, char*);

// One form of the code, if the program was compiled to it: machine code or PTX. PTX has its size with a NUL, which is no part of it.
void add_output(Record& record, const ItsLibrary& library, NvrtcProgram program, const char* get_size_name,
                const char* get_code_name) {
  GetSize* get_size = nullptr;
  GetCode* get_code = nullptr;
  library.load(get_size, get_size_name);
  library.load(get_code, get_code_name);
  std::size_t size = 0;
  if (get_size(program, &size) != k_nvrtc_success || size == 0) return;
  std::string code(size, '\0');
  if (get_code(program, code.data()) != k_nvrtc_success) return;
  record.add("output", code);
  if (code.back() == '\0') record.add("output", std::string_view(code).substr(0, code.size() - 1));
}

void record_compilation(const ItsLibrary& library, const Program& program, NvrtcProgram handle, int option_count,
                        const char* const* options) {
  NvrtcResult (*get_version)(int*, int*) = nullptr;
  library.load(get_version, "nvrtcVersion");
  int major = 0;
  int minor = 0;
  (void)get_version(&major, &minor);
  Record record;
  record.add("compiler", "nvrtc " + std::to_string(major) + "." + std::to_string(minor));
  record.add("library", library.path());
  record.add("directory", working_folder());
  record.add("target", "");
  for (int i = 0; i < option_count; ++i) record.add("option", options[i]);
  for (const std::string& expression : program.expressions) record.add("name_expression", expression);
  record.add("name", program.name);
  record.add_text("source", program.source);
  for (const auto& [name, text] : program.headers) {
    record.add("name", name);
    record.add_text("header", text);
  }
  add_output(record, library, handle, "nvrtcGetCUBINSize", "nvrtcGetCUBIN");
  add_output(record, library, handle, "nvrtcGetPTXSize", "nvrtcGetPTX");
  record.write();
}

}  // namespace

NvrtcResult create_program(CreateProgram* real, NvrtcProgram* program, const char* source, const char* name, int header_count,
                           const char* const* headers, const char* const* header_names) noexcept {
  const NvrtcResult result = real(program, source, name, header_count, headers, header_names);
  if (result != k_nvrtc_success) return result;
  try_to([&] {
    Program made{name != nullptr ? name : "", source, {}, {}};
    for (int i = 0; i < header_count; ++i) made.headers.emplace_back(header_names[i], headers[i]);
    const std::lock_guard lock(g_mutex);
    g_programs[*program] = std::move(made);
  });
  return result;
}

NvrtcResult add_name_expression(AddNameExpression* real, NvrtcProgram program, const char* expression) noexcept {
  const NvrtcResult result = real(program, expression);
  if (result != k_nvrtc_success) return result;
  try_to([&] {
    const std::lock_guard lock(g_mutex);
    if (const auto found = g_programs.find(program); found != g_programs.end()) found->second.expressions.emplace_back(expression);
  });
  return result;
}

NvrtcResult compile_program(CompileProgram* real, NvrtcProgram program, int option_count, const char* const* options) noexcept {
  const NvrtcResult result = real(program, option_count, options);
  if (result != k_nvrtc_success) return result;
  try_to([&] {
    Program known;
    {
      const std::lock_guard lock(g_mutex);
      const auto found = g_programs.find(program);
      if (found == g_programs.end()) throw std::runtime_error("a program of NVRTC was made before kc-capture could see it");
      known = found->second;
    }
    record_compilation(ItsLibrary(reinterpret_cast<const void*>(real)), known, program, option_count, options);
  });
  return result;
}

NvrtcResult destroy_program(DestroyProgram* real, NvrtcProgram* program) noexcept {
  try_to([&] {
    const std::lock_guard lock(g_mutex);
    if (program != nullptr) g_programs.erase(*program);
  });
  return real(program);
}

}  // namespace kerncap::rtc
