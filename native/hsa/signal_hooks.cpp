// Where the program learns that a signal has fallen: it waits, looks, or is called. Before that the times of what has
// ended are taken, so that they are in the memory that we share with the collector when the program acts on it, by
// abort() for one.
#include <memory>
#include <new>

#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

void keep_what_has_ended() noexcept {
  if (enabled() && tool()->profiling()) tool()->profiler.harvest();
}

// Programs look again and again, and what they wait for is nearly always zero.
hsa_signal_value_t looked_at(hsa_signal_value_t value) noexcept {
  if (value <= 0) keep_what_has_ended();
  return value;
}

struct Handler {
  hsa_amd_signal_handler call;
  void* argument;
};

// On the runtime's thread for events. True: it wants to be called again.
bool call_handler(hsa_signal_value_t value, void* argument) {
  std::unique_ptr<Handler> handler(static_cast<Handler*>(argument));
  keep_what_has_ended();
  const bool again = handler->call(value, handler->argument);
  if (again) (void)handler.release();
  return again;
}

}  // namespace

namespace hooks {

hsa_signal_value_t hsa_signal_load_scacquire(hsa_signal_t signal) {
  return looked_at(api().core.hsa_signal_load_scacquire_fn(signal));
}

hsa_signal_value_t hsa_signal_load_relaxed(hsa_signal_t signal) {
  return looked_at(api().core.hsa_signal_load_relaxed_fn(signal));
}

hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t condition,
                                             hsa_signal_value_t compare_value, uint64_t timeout_hint,
                                             hsa_wait_state_t wait_state_hint) {
  const hsa_signal_value_t value = api().core.hsa_signal_wait_scacquire_fn(signal, condition, compare_value,
                                                                           timeout_hint, wait_state_hint);
  keep_what_has_ended();
  return value;
}

hsa_signal_value_t hsa_signal_wait_relaxed(hsa_signal_t signal, hsa_signal_condition_t condition,
                                           hsa_signal_value_t compare_value, uint64_t timeout_hint,
                                           hsa_wait_state_t wait_state_hint) {
  const hsa_signal_value_t value =
      api().core.hsa_signal_wait_relaxed_fn(signal, condition, compare_value, timeout_hint, wait_state_hint);
  keep_what_has_ended();
  return value;
}

uint32_t hsa_amd_signal_wait_any(uint32_t signal_count, hsa_signal_t* signals, hsa_signal_condition_t* conds,
                                 hsa_signal_value_t* values, uint64_t timeout_hint, hsa_wait_state_t wait_hint,
                                 hsa_signal_value_t* satisfying_value) {
  const uint32_t which = api().ext.hsa_amd_signal_wait_any_fn(signal_count, signals, conds, values, timeout_hint,
                                                              wait_hint, satisfying_value);
  keep_what_has_ended();
  return which;
}

uint32_t hsa_amd_signal_wait_all(uint32_t signal_count, hsa_signal_t* signals, hsa_signal_condition_t* conds,
                                 hsa_signal_value_t* values, uint64_t timeout_hint, hsa_wait_state_t wait_hint,
                                 hsa_signal_value_t* satisfying_values) {
  const uint32_t which = api().ext.hsa_amd_signal_wait_all_fn(signal_count, signals, conds, values, timeout_hint,
                                                              wait_hint, satisfying_values);
  keep_what_has_ended();
  return which;
}

hsa_status_t hsa_amd_signal_async_handler(hsa_signal_t signal, hsa_signal_condition_t cond, hsa_signal_value_t value,
                                          hsa_amd_signal_handler handler, void* arg) {
  std::unique_ptr<Handler> ours;
  if (handler != nullptr && enabled() && tool()->profiling()) ours.reset(new (std::nothrow) Handler{handler, arg});
  if (ours == nullptr) return api().ext.hsa_amd_signal_async_handler_fn(signal, cond, value, handler, arg);
  const hsa_status_t status = api().ext.hsa_amd_signal_async_handler_fn(signal, cond, value, call_handler, ours.get());
  if (status == HSA_STATUS_SUCCESS) (void)ours.release();
  return status;
}

}  // namespace hooks
}  // namespace kerncap::hsa
