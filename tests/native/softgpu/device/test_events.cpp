// Events, as the kernel driver has them.
#include <chrono>
#include <thread>

#include "check.hpp"
#include "softgpu/device/events.hpp"

using namespace kerncap::softgpu;

namespace {

[[nodiscard]] kfd_event_data wanted(std::uint32_t id, std::uint64_t age = 0) {
  kfd_event_data data{};
  data.event_id = id;
  data.signal_event_data.last_event_age = age;
  return data;
}

void set_before_the_wait_is_not_lost() {
  EventTable events;
  const auto event = events.create(KFD_IOC_EVENT_SIGNAL, true);
  CHECK(event.id != 0 && event.slot == event.id);
  CHECK(events.set(event.id));
  kfd_event_data data = wanted(event.id);
  CHECK(events.wait({&data, 1}, true, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
  // Once: it resets itself.
  CHECK(events.wait({&data, 1}, true, 0) == KFD_IOC_WAIT_RESULT_TIMEOUT);
}

void manual_events_stay_set() {
  EventTable events;
  const auto event = events.create(KFD_IOC_EVENT_SIGNAL, false);
  events.set(event.id);
  kfd_event_data data = wanted(event.id);
  for (int i = 0; i < 2; ++i) CHECK(events.wait({&data, 1}, true, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
  events.reset(event.id);
  CHECK(events.wait({&data, 1}, true, 0) == KFD_IOC_WAIT_RESULT_TIMEOUT);
}

void an_older_age_returns_at_once() {
  EventTable events;
  const auto event = events.create(KFD_IOC_EVENT_SIGNAL, true);
  events.set(event.id);
  kfd_event_data data = wanted(event.id);
  CHECK(events.wait({&data, 1}, true, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);  // somebody else takes it
  data = wanted(event.id, 1);
  CHECK(events.wait({&data, 1}, true, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
  CHECK(data.signal_event_data.last_event_age == 2);
  CHECK(events.wait({&data, 1}, true, 0) == KFD_IOC_WAIT_RESULT_TIMEOUT);  // it knows the newest age now
}

// ROCr 6.4 does so as long as a signal does not have the value that it waits for.
void who_asks_again_with_an_old_age_is_told_later() {
  EventTable events;
  const auto event = events.create(KFD_IOC_EVENT_SIGNAL, true), other = events.create(KFD_IOC_EVENT_SIGNAL, true);
  events.set(event.id);
  kfd_event_data first[2] = {wanted(event.id, 1), wanted(other.id, 1)};
  CHECK(events.wait(first, false, 20000) == KFD_IOC_WAIT_RESULT_COMPLETE);
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) {
    kfd_event_data again[2] = {wanted(event.id, 1), wanted(other.id, 1)};
    CHECK(events.wait(again, false, 20000) == KFD_IOC_WAIT_RESULT_COMPLETE);
    CHECK(again[0].signal_event_data.last_event_age == 2 && again[1].signal_event_data.last_event_age == 1);
  }
  CHECK(std::chrono::steady_clock::now() - begun >= std::chrono::milliseconds(3));
  // What is set meanwhile is not missed, whichever of the two it is.
  for (const auto& set : {event, other}) {
    const std::uint64_t newer = set.id == event.id ? 3 : 2;
    std::thread setter([&] { events.set(set.id); });
    std::uint64_t age = 0;
    while (age != newer) {
      kfd_event_data again[2] = {wanted(event.id, 1), wanted(other.id, 1)};
      CHECK(events.wait(again, false, 20000) == KFD_IOC_WAIT_RESULT_COMPLETE);
      age = again[set.id == event.id ? 0 : 1].signal_event_data.last_event_age;
    }
    setter.join();
  }
}

void one_set_wakes_all_that_wait() {
  EventTable events;
  const auto event = events.create(KFD_IOC_EVENT_SIGNAL, true);
  std::thread threads[3];
  std::uint32_t results[3];
  for (int i = 0; i < 3; ++i) {
    threads[i] = std::thread([&, i] {
      kfd_event_data data = wanted(event.id, 1);
      results[i] = events.wait({&data, 1}, true, 20000);
    });
  }
  events.set(event.id);
  for (auto& thread : threads) thread.join();
  for (const auto result : results) CHECK(result == KFD_IOC_WAIT_RESULT_COMPLETE);
}

void waits_for_all_or_any() {
  EventTable events;
  const auto first = events.create(KFD_IOC_EVENT_SIGNAL, true), second = events.create(KFD_IOC_EVENT_SIGNAL, true);
  events.set(second.id);
  kfd_event_data both[2] = {wanted(first.id), wanted(second.id)};
  CHECK(events.wait(both, false, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
  events.set(second.id);
  CHECK(events.wait(both, true, 5) == KFD_IOC_WAIT_RESULT_TIMEOUT);
  std::thread setter([&] {
    events.set(first.id);
    events.set(second.id);
  });
  kfd_event_data aged[2] = {wanted(first.id, 1), wanted(second.id, 3)};
  CHECK(events.wait(aged, true, 20000) == KFD_IOC_WAIT_RESULT_COMPLETE);
  setter.join();
}

void exceptions_carry_their_data() {
  EventTable events;
  const auto memory = events.create(KFD_IOC_EVENT_MEMORY, false), hardware = events.create(KFD_IOC_EVENT_HW_EXCEPTION, false);
  CHECK(memory.id >= 0x80000000 && hardware.id != memory.id);
  events.memory_exception(77, 0xabc000, true, false);
  kfd_event_data data = wanted(memory.id);
  CHECK(events.wait({&data, 1}, true, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
  CHECK(data.memory_exception_data.va == 0xabc000 && data.memory_exception_data.gpu_id == 77);
  CHECK(data.memory_exception_data.failure.ReadOnly == 1 && data.memory_exception_data.failure.NotPresent == 0);
  kfd_event_data other = wanted(hardware.id);
  CHECK(events.wait({&other, 1}, true, 0) == KFD_IOC_WAIT_RESULT_TIMEOUT);
  events.hardware_exception(78);
  CHECK(events.wait({&other, 1}, true, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
  CHECK(other.hw_exception_data.gpu_id == 78 && other.hw_exception_data.reset_cause == KFD_HW_EXCEPTION_GPU_HANG);
}

void destroying_ends_waits() {
  EventTable events;
  const auto event = events.create(KFD_IOC_EVENT_SIGNAL, true);
  std::uint32_t result = KFD_IOC_WAIT_RESULT_COMPLETE;
  std::thread waiter([&] {
    kfd_event_data data = wanted(event.id);
    result = events.wait({&data, 1}, true, ~0U);
  });
  std::this_thread::yield();
  CHECK(events.destroy(event.id));
  waiter.join();  // whether it waited already or came too late
  CHECK(result == KFD_IOC_WAIT_RESULT_FAIL);
  CHECK(!events.destroy(event.id) && !events.set(event.id));
}

void all_slots_can_be_used_and_used_again() {
  EventTable events;
  std::uint32_t last = 0;
  for (unsigned i = 1; i < KFD_SIGNAL_EVENT_LIMIT; ++i) {
    last = events.create(KFD_IOC_EVENT_SIGNAL, true).id;
    CHECK(last != 0 && last < KFD_SIGNAL_EVENT_LIMIT);
  }
  CHECK(events.create(KFD_IOC_EVENT_SIGNAL, true).id == 0);
  events.destroy(5);
  CHECK(events.create(KFD_IOC_EVENT_SIGNAL, true).id == 5);
}

}  // namespace

int main() {
  set_before_the_wait_is_not_lost();
  manual_events_stay_set();
  an_older_age_returns_at_once();
  who_asks_again_with_an_old_age_is_told_later();
  one_set_wakes_all_that_wait();
  waits_for_all_or_any();
  exceptions_carry_their_data();
  destroying_ends_waits();
  all_slots_can_be_used_and_used_again();
  return test::exit_code();
}
