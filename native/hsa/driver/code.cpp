// Code objects of the HSA driver: loaded at the captured address where the replay wants that.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/process_maps.hpp"
#include "hsa/driver/hsa_driver.hpp"
#include "hsa/driver/loaded_code.hpp"
#include "hsa/driver/steering.hpp"
#include "hsa/embedded_kernels.hpp"
#include "replay/address_space.hpp"

namespace kerncap::hsa {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr std::uint64_t k_page = 4096;

std::string span_of(std::uint64_t base, std::uint64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "0x%lx-0x%lx", base, base + bytes);
  return text;
}

using Loader = hsa_ven_amd_loader_1_03_pfn_t;

// All code objects that are loaded now, by HIP, by us, by ROCr itself.
struct Loaded {
  const Loader* loader;
  std::vector<hsa_loaded_code_object_t> all;
};

hsa_status_t list_one(hsa_executable_t, hsa_loaded_code_object_t found, void* out) {
  static_cast<Loaded*>(out)->all.push_back(found);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t list_executable(hsa_executable_t executable, void* out) {
  return static_cast<Loaded*>(out)->loader->hsa_ven_amd_loader_executable_iterate_loaded_code_objects(executable,
                                                                                                      list_one, out);
}

Result<Loader> loader_of(const Runtime& runtime) {
  Loader loader{};
  const hsa_status_t status =
      runtime.hsa_system_get_major_extension_table(HSA_EXTENSION_AMD_LOADER, 1, sizeof loader, &loader);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(runtime, "asking for the loader's functions", status);
  return loader;
}

std::vector<hsa_loaded_code_object_t> loaded_now(const Loader& loader) {
  Loaded loaded{&loader, {}};
  loader.hsa_ven_amd_loader_iterate_executables(list_executable, &loaded);
  return loaded.all;
}

// Whether the runtime loaded this file. HIP may load others by the way, and leaves out what a file has behind the ELF.
bool is_from(const std::vector<std::byte>& file, std::uint64_t storage, std::uint64_t bytes) {
  return storage != 0 && bytes <= file.size() &&
         std::memcmp(reinterpret_cast<const void*>(storage), file.data(), bytes) == 0;
}

// Where the code object is that was not among those before.
Result<void> find_place(const Loader& loader, const std::vector<hsa_loaded_code_object_t>& before, LoadedCode& code) {
  for (const hsa_loaded_code_object_t each : loaded_now(loader)) {
    const bool is_old = std::any_of(before.begin(), before.end(), [&](const hsa_loaded_code_object_t& old) {
      return old.handle == each.handle;
    });
    if (is_old) continue;
    const auto info = [&](hsa_ven_amd_loader_loaded_code_object_info_t attribute, auto& value) {
      loader.hsa_ven_amd_loader_loaded_code_object_get_info(each, attribute, &value);
    };
    std::uint64_t bytes = 0;
    std::uint64_t begin = 0;
    info(HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_MEMORY_SIZE, bytes);
    info(HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_MEMORY_BASE, begin);
    if (!is_from(code.file, begin, bytes)) continue;
    info(HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE, code.load_address);
    info(HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE, code.load_bytes);
    return {};
  }
  return Error{ErrorCode::device, "the runtime does not say where it loaded the code object"};
}

// Whether the runtime says that the file is at fault, not the device or the lack of something.
bool is_fault_of_code(hsa_status_t status) {
  switch (status) {
    case HSA_STATUS_ERROR_INVALID_CODE_OBJECT:
    case HSA_STATUS_ERROR_INVALID_CODE_SYMBOL:
    case HSA_STATUS_ERROR_INVALID_SYMBOL_NAME:
    case HSA_STATUS_ERROR_INVALID_ISA:
    case HSA_STATUS_ERROR_INVALID_ISA_NAME:
    case HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS:
    case HSA_STATUS_ERROR_VARIABLE_ALREADY_DEFINED:
    case HSA_STATUS_ERROR_VARIABLE_UNDEFINED: return true;
    default: return false;
  }
}

Error load_error(const Runtime& runtime, const std::string& what, hsa_status_t status) {
  Error error = runtime_error(runtime, what, status);
  if (is_fault_of_code(status)) error.code = ErrorCode::invalid_argument;
  return error;
}

}  // namespace

std::string architecture_of(const std::string& isa) {
  const std::size_t begin = isa.find("--");
  const std::string target = begin == std::string::npos ? isa : isa.substr(begin + 2);
  return target.substr(0, target.find(':'));
}

Result<std::unique_ptr<replay::Code>> HsaDriver::load(std::span<const std::byte> file, const std::string& symbol,
                                                      std::optional<std::uint64_t> at) {
  auto code = std::make_unique<LoadedCode>(m_runtime, m_hip.get());
  code->file.assign(file.begin(), file.end());
  const Result<Loader> loader = loader_of(m_runtime);
  if (!loader) return loader.error();
  const std::vector<hsa_loaded_code_object_t> before = loaded_now(loader.value());
  {
    std::optional<Steering> steering;
    if (at) steering.emplace(*at, (m_plan->loaded_bytes + k_page - 1) & ~(k_page - 1));
    Result<void> loaded = m_hip == nullptr ? load_by_runtime(*code, symbol) : load_by_hip(*code, symbol);
    if (!loaded) return loaded.error();
  }
  if (Result<void> found = find_place(loader.value(), before, *code); !found) return found.error();
  if (at && code->load_address != *at) {
    return Error{ErrorCode::device,
                 "the runtime loads the captured code object at " + span_of(code->load_address, code->load_bytes) +
                     " and not where it was, " + span_of(*at, m_plan->loaded_bytes) + ", which is held by " +
                     replay::holder_of(*at, m_plan->loaded_bytes)};
  }
  note_code(*code);
  return std::unique_ptr<replay::Code>(std::move(code));
}

// It is only read there: what is written goes through the device.
void HsaDriver::note_code(LoadedCode& code) {
  if (!m_reach_devices || !m_device->is_software()) return;
  const auto mappings = core::process_mappings();
  if (!mappings) return;
  for (const core::ProcessMapping& mapping : *mappings) {
    const bool holds = mapping.begin <= code.load_address && code.load_address + code.load_bytes <= mapping.end;
    if (holds && mapping.is_readable()) code.readable = m_readable_code.add({code.load_address, code.load_bytes});
  }
}

Result<void> HsaDriver::load_by_hip(LoadedCode& code, const std::string& symbol) {
  const Result<HipLauncher::Module> module = m_hip->load(code.file, symbol);
  if (!module) return module.error();
  code.hip_module = module.value();
  return {};
}

std::unique_ptr<replay::Code> HsaDriver::load_own(std::string_view file, const std::string& symbol) {
  for (const EmbeddedKernel& kernel : embedded_kernels(file, m_device->isa)) {
    auto code = std::make_unique<LoadedCode>(m_runtime, nullptr);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(kernel.bytes, kernel.size));
    code->file.assign(bytes.begin(), bytes.end());
    if (load_by_runtime(*code, symbol)) return code;
  }
  return nullptr;
}

Result<void> HsaDriver::load_by_runtime(LoadedCode& code, const std::string& symbol) {
  hsa_status_t status =
      m_runtime.hsa_code_object_reader_create_from_memory(code.file.data(), code.file.size(), &code.reader);
  if (status != HSA_STATUS_SUCCESS) return load_error(m_runtime, "reading the code object", status);
  status = m_runtime.hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr,
                                               &code.executable);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "creating an executable", status);
  status = m_runtime.hsa_executable_load_agent_code_object(code.executable, m_device->agent, code.reader, nullptr,
                                                           nullptr);
  if (status != HSA_STATUS_SUCCESS) {
    return load_error(m_runtime, "loading the code object on a " + architecture_of(m_device->isa), status);
  }
  status = m_runtime.hsa_executable_freeze(code.executable, nullptr);
  if (status != HSA_STATUS_SUCCESS) return load_error(m_runtime, "freezing the executable", status);
  hsa_executable_symbol_t found{};
  status = m_runtime.hsa_executable_get_symbol_by_name(code.executable, (symbol + ".kd").c_str(), &m_device->agent,
                                                       &found);
  if (status != HSA_STATUS_SUCCESS) return Error{ErrorCode::not_found, "the code object has no kernel " + symbol};
  const auto info = [&](hsa_executable_symbol_info_t attribute, auto& value) {
    m_runtime.hsa_executable_symbol_get_info(found, attribute, &value);
  };
  info(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, code.kernel_object);
  info(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, code.static_lds_bytes);
  info(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, code.private_bytes);
  info(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, code.kernarg_bytes);
  return {};
}

}  // namespace kerncap::hsa
