// Compares what cubins say of themselves with what the driver finds in a module. Two that hold the same names and are not the same,
// as where a kernel that two files call the same is all that there is in them, cannot be told apart.
#include "cuda/module_match.hpp"

#include <algorithm>
#include <iterator>

#include "cuda/api.hpp"

namespace kerncap::cuda {
namespace {

// Sorted; none where the driver is too old to tell.
std::vector<std::string> kernels_of(CUmodule handle) {
  const Driver& api = driver();
  if (api.cuModuleGetFunctionCount == nullptr || api.cuModuleEnumerateFunctions == nullptr || api.cuFuncGetName == nullptr) return {};
  unsigned count = 0;
  if (api.cuModuleGetFunctionCount(&count, handle) != CUDA_SUCCESS) return {};
  std::vector<CUfunction> functions(count);
  if (api.cuModuleEnumerateFunctions(functions.data(), count, handle) != CUDA_SUCCESS) return {};
  std::vector<std::string> names;
  for (CUfunction function : functions) {
    const char* name = nullptr;
    if (api.cuFuncGetName(&name, function) == CUDA_SUCCESS && name != nullptr) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_there(CUmodule handle, const ModuleVariable& variable) {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  return driver().cuModuleGetGlobal_v2(&address, &bytes, handle, variable.name.c_str()) == CUDA_SUCCESS &&
         bytes == variable.bytes;
}

bool has(const ModuleCandidate& cubin, const ModuleVariable& variable) {
  return std::any_of(cubin.variables.begin(), cubin.variables.end(), [&variable](const ModuleVariable& each) {
    return each.name == variable.name && each.bytes == variable.bytes;
  });
}

// How many names are in one and not in the other: of each candidate.
std::vector<std::size_t> differences(CUmodule handle, const std::vector<ModuleCandidate>& candidates) {
  std::vector<std::size_t> counts(candidates.size());
  const std::vector<std::string> kernels = kernels_of(handle);
  for (std::size_t i = 0; i < candidates.size() && !kernels.empty(); ++i) {
    const std::vector<std::string>& its = candidates[i].kernels;
    std::vector<std::string> unshared;
    std::set_symmetric_difference(kernels.begin(), kernels.end(), its.begin(), its.end(), std::back_inserter(unshared));
    counts[i] = unshared.size();
  }
  for (const ModuleCandidate& cubin : candidates) {
    for (const ModuleVariable& variable : cubin.variables) {
      const bool found = is_there(handle, variable);
      for (std::size_t i = 0; i < candidates.size(); ++i) counts[i] += has(candidates[i], variable) != found ? 1 : 0;
    }
  }
  return counts;
}

bool are_the_same(const std::vector<ModuleCandidate>& candidates) {
  return std::all_of(candidates.begin(), candidates.end(),
                     [&](const ModuleCandidate& each) { return each.content == candidates.front().content; });
}

// A library has a module in each context.
void keep_those_of_the_current_context(std::vector<ModuleCandidate>& candidates) {
  CUcontext current = nullptr;
  if (driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS) return;
  const auto is_here = [current](const ModuleCandidate& each) { return each.context == current; };
  // None: a green context's modules are those of another one.
  if (std::none_of(candidates.begin(), candidates.end(), is_here)) return;
  std::erase_if(candidates, [&](const ModuleCandidate& each) { return !is_here(each); });
}

}  // namespace

bool has_all_variables(CUmodule handle, const ModuleCandidate& cubin) {
  return std::all_of(cubin.variables.begin(), cubin.variables.end(),
                     [handle](const ModuleVariable& each) { return is_there(handle, each); });
}

ModuleMatch match_module(CUmodule handle, std::vector<ModuleCandidate> candidates) {
  if (candidates.size() > 1) keep_those_of_the_current_context(candidates);
  if (!are_the_same(candidates)) {
    const std::vector<std::size_t> counts = differences(handle, candidates);
    const std::size_t least = *std::min_element(counts.begin(), counts.end());
    std::vector<ModuleCandidate> likest;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == least) likest.push_back(std::move(candidates[i]));
    }
    candidates = std::move(likest);
  }
  if (candidates.empty()) return {};
  return {candidates.back().number, are_the_same(candidates)};
}

}  // namespace kerncap::cuda
