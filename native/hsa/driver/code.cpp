// Code objects of the HSA driver: loaded at the captured address where the replay wants that.
#include <cstdio>

#include "hsa/driver/code_symbols.hpp"
#include "hsa/driver/hsa_driver.hpp"
#include "hsa/driver/loaded_code.hpp"
#include "hsa/driver/steering.hpp"
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

// Where the only code object of an executable is.
Result<void> find_place(const Runtime& runtime, LoadedCode& code) {
  hsa_ven_amd_loader_1_01_pfn_t loader{};
  hsa_status_t status =
      runtime.hsa_system_get_major_extension_table(HSA_EXTENSION_AMD_LOADER, 1, sizeof loader, &loader);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(runtime, "asking for the loader's functions", status);
  hsa_loaded_code_object_t loaded{};
  status = loader.hsa_ven_amd_loader_executable_iterate_loaded_code_objects(
      code.executable,
      [](hsa_executable_t, hsa_loaded_code_object_t found, void* out) {
        *static_cast<hsa_loaded_code_object_t*>(out) = found;
        return HSA_STATUS_SUCCESS;
      },
      &loaded);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(runtime, "looking for the loaded code object", status);
  loader.hsa_ven_amd_loader_loaded_code_object_get_info(
      loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE, &code.load_address);
  loader.hsa_ven_amd_loader_loaded_code_object_get_info(
      loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE, &code.load_bytes);
  return {};
}

}  // namespace

std::string architecture_of(const std::string& isa) {
  const std::size_t begin = isa.find("--");
  const std::string target = begin == std::string::npos ? isa : isa.substr(begin + 2);
  return target.substr(0, target.find(':'));
}

Result<std::unique_ptr<replay::Code>> HsaDriver::load(std::span<const std::byte> file, const std::string& symbol,
                                                      std::optional<std::uint64_t> at) {
  auto code = std::make_unique<LoadedCode>(m_runtime);
  code->file.assign(file.begin(), file.end());
  hsa_status_t status =
      m_runtime.hsa_code_object_reader_create_from_memory(code->file.data(), code->file.size(), &code->reader);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "reading the code object", status);
  status = m_runtime.hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr,
                                               &code->executable);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "creating an executable", status);
  {
    std::optional<Steering> steering;
    if (at) steering.emplace(*at, (m_plan->loaded_bytes + k_page - 1) & ~(k_page - 1));
    status = m_runtime.hsa_executable_load_agent_code_object(code->executable, m_device->agent, code->reader, nullptr,
                                                             nullptr);
  }
  if (status != HSA_STATUS_SUCCESS) {
    return runtime_error(m_runtime, "loading the code object on a " + architecture_of(m_device->isa), status);
  }
  status = m_runtime.hsa_executable_freeze(code->executable, nullptr);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "freezing the executable", status);
  if (Result<void> found = find_place(m_runtime, *code); !found) return found.error();
  if (at && code->load_address != *at) {
    return Error{ErrorCode::device,
                 "the runtime loads the captured code object at " + span_of(code->load_address, code->load_bytes) +
                     " and not where it was, " + span_of(*at, m_plan->loaded_bytes) + ", which is held by " +
                     replay::holder_of(*at, m_plan->loaded_bytes)};
  }
  hsa_executable_symbol_t found{};
  status = m_runtime.hsa_executable_get_symbol_by_name(code->executable, (symbol + ".kd").c_str(), &m_device->agent,
                                                       &found);
  if (status != HSA_STATUS_SUCCESS) {
    return Error{ErrorCode::not_found, "the code object has no kernel " + symbol};
  }
  const auto info = [&](hsa_executable_symbol_info_t attribute, auto& value) {
    m_runtime.hsa_executable_symbol_get_info(found, attribute, &value);
  };
  info(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, code->kernel_object);
  info(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, code->static_lds_bytes);
  info(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, code->private_bytes);
  info(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, code->kernarg_bytes);
  return std::unique_ptr<replay::Code>(std::move(code));
}

std::optional<std::uint64_t> HsaDriver::variable(replay::Code& code, const std::string& name, std::uint64_t bytes) {
  const auto& loaded = static_cast<LoadedCode&>(code);
  const auto offset = data_symbol(loaded.file, name, bytes);
  return offset ? std::optional(loaded.load_address + *offset) : std::nullopt;
}

}  // namespace kerncap::hsa
