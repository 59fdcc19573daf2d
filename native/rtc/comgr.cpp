// Records actions of AMD's code object manager.
#include "rtc/comgr.hpp"

#include <array>
#include <exception>
#include <stdexcept>
#include <string>

#include "rtc/its_library.hpp"
#include "rtc/record.hpp"

namespace kerncap::rtc {
namespace {

enum DataKind : std::uint32_t { source = 1, include = 2, bitcode = 6, relocatable = 7, executable = 8 };

constexpr std::array k_code = {bitcode, relocatable, executable};

// The functions of one library, by the names of its header.
struct Library {
  using Text = ComgrStatus(ComgrHandle, std::size_t* size, char* text);

  void (*get_version)(std::size_t* major, std::size_t* minor);
  ComgrStatus (*action_info_get_language)(ComgrHandle, std::uint32_t*);
  Text* action_info_get_isa_name;
  ComgrStatus (*action_info_get_option_list_count)(ComgrHandle, std::size_t*);
  ComgrStatus (*action_info_get_option_list_item)(ComgrHandle, std::size_t index, std::size_t* size, char* option);
  ComgrStatus (*action_data_count)(ComgrHandle, std::uint32_t kind, std::size_t*);
  ComgrStatus (*action_data_get_data)(ComgrHandle, std::uint32_t kind, std::size_t index, ComgrHandle*);
  ComgrStatus (*release_data)(ComgrHandle);
  Text* get_data;
  Text* get_data_name;

  std::string path;

  explicit Library(DoAction* its_function) {
    const ItsLibrary library(reinterpret_cast<const void*>(its_function));
    path = library.path();
#define KERNCAP_LOAD(function) library.load(function, "amd_comgr_" #function)
    KERNCAP_LOAD(get_version);
    KERNCAP_LOAD(action_info_get_language);
    KERNCAP_LOAD(action_info_get_isa_name);
    KERNCAP_LOAD(action_info_get_option_list_count);
    KERNCAP_LOAD(action_info_get_option_list_item);
    KERNCAP_LOAD(action_data_count);
    KERNCAP_LOAD(action_data_get_data);
    KERNCAP_LOAD(release_data);
    KERNCAP_LOAD(get_data);
    KERNCAP_LOAD(get_data_name);
#undef KERNCAP_LOAD
  }

  // An error of the library, except where it only means that there is none of a kind.
  static void check(ComgrStatus status, const char* what) {
    if (status != k_comgr_success) throw std::runtime_error(std::string("libamd_comgr does not tell ") + what);
  }

  [[nodiscard]] std::size_t count(ComgrHandle set, DataKind kind) const {
    std::size_t number = 0;
    check(action_data_count(set, kind, &number), "how much there is");
    return number;
  }

  [[nodiscard]] static std::string read(Text* get, ComgrHandle handle, const char* what) {
    std::size_t size = 0;
    check(get(handle, &size, nullptr), what);
    std::string text(size, '\0');
    if (size > 0) check(get(handle, &size, text.data()), what);
    return text;
  }

  // Of a name or an option. Its size counts the NUL in some functions and versions, and in others does not.
  [[nodiscard]] static std::string until_nul(std::string text) {
    text.resize(text.find('\0') == std::string::npos ? text.size() : text.find('\0'));
    return text;
  }

  [[nodiscard]] std::string option(ComgrHandle action, std::size_t index) const {
    std::size_t size = 0;
    check(action_info_get_option_list_item(action, index, &size, nullptr), "an option");
    std::string text(size + 1, '\0');
    check(action_info_get_option_list_item(action, index, &size, text.data()), "an option");
    return until_nul(std::move(text));
  }
};

void add_data(Record& record, const Library& comgr, ComgrHandle set, DataKind kind, const char* field) {
  const std::size_t count = comgr.count(set, kind);
  for (std::size_t i = 0; i < count; ++i) {
    ComgrHandle data = 0;
    Library::check(comgr.action_data_get_data(set, kind, i, &data), "its data");
    struct Release {
      const Library& comgr;
      ComgrHandle data;
      ~Release() { (void)comgr.release_data(data); }
    } const release{comgr, data};
    const std::string bytes = Library::read(comgr.get_data, data, "its data");
    if (kind == source || kind == include) {
      record.add("name", Library::until_nul(Library::read(comgr.get_data_name, data, "a name")));
      record.add_text(field, bytes);
    } else {
      record.add(field, bytes);
    }
  }
}

bool holds_code(const Library& comgr, ComgrHandle set) {
  for (const DataKind kind : k_code) {
    if (comgr.count(set, kind) > 0) return true;
  }
  return false;
}

void record_action(const Library& comgr, ComgrHandle action, ComgrHandle input, ComgrHandle result) {
  if (!holds_code(comgr, result)) return;  // it preprocessed, disassembled or bundled
  Record record;
  if (comgr.count(input, source) > 0) {
    std::size_t major = 0;
    std::size_t minor = 0;
    comgr.get_version(&major, &minor);
    std::uint32_t language = 0;
    Library::check(comgr.action_info_get_language(action, &language), "the language");
    if (language != (major < 3 ? 4U : 3U)) return;  // OpenCL
    record.add("compiler", "comgr " + std::to_string(major) + "." + std::to_string(minor));
    record.add("library", comgr.path);
    record.add("directory", working_folder());
    record.add("target", Library::until_nul(Library::read(comgr.action_info_get_isa_name, action, "the target")));
    std::size_t options = 0;
    Library::check(comgr.action_info_get_option_list_count(action, &options), "its options");
    for (std::size_t i = 0; i < options; ++i) record.add("option", comgr.option(action, i));
    add_data(record, comgr, input, source, "source");
    add_data(record, comgr, input, include, "header");
  }
  for (const DataKind kind : k_code) add_data(record, comgr, input, kind, "input");
  for (const DataKind kind : k_code) add_data(record, comgr, result, kind, "output");
  record.write();
}

}  // namespace

ComgrStatus do_action(DoAction* real, std::uint32_t kind, ComgrHandle action, ComgrHandle input, ComgrHandle result) noexcept {
  const ComgrStatus status = real(kind, action, input, result);
  if (status != k_comgr_success || !recording()) return status;
  try {
    record_action(Library(real), action, input, result);
  } catch (const std::exception& error) {
    report(error.what());
  }
  return status;
}

}  // namespace kerncap::rtc
