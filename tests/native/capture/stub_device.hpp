// A device that only writes down what it is asked, and does badly what a test says. And a session over it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../check.hpp"
#include "capture/session.hpp"

namespace kerncap::test {

using namespace kerncap::capture;
using kerncap::capture::messages::Cost;
using core::Error;
using core::ErrorCode;
using core::Result;
using std::chrono::milliseconds;

// The steps that can end badly, in their order. The kernel hangs, others go on, what else there is fails or hangs.
inline const char* const k_steps[] = {"hold", "drain", "describe", "pre", "undisturbed",
                                      "kernel", "post", "undisturbed again"};
inline bool can_hang(const std::string& step) { return step != "kernel" && !step.starts_with("undisturbed"); }
// Behind these a copy may be under way for ever.
inline bool breaks(const std::string& step) { return step == "describe" || step == "pre" || step == "post"; }

// What a test changes and sees of a dispatch: it outlives that, which is the session's.
struct Facts {
  std::atomic<bool> reached{true}, hangs{false}, ended{false}, left{false}, gives_back{false}, destroyed{false};
  std::atomic<int> completed{0}, released{0}, given_back{0};
};

struct StubDispatch : Dispatch {
  std::shared_ptr<Facts> facts = std::make_shared<Facts>();
};

inline Facts& facts_of(const Dispatch& dispatch) { return *static_cast<const StubDispatch&>(dispatch).facts; }

// One for each test: `bad` names the step of the first dispatch that fails, or that hangs until the session ends.
class Stub : public QueuedDevice, public Listener {
 public:
  enum How { fails, hangs, hangs_on, stalls };
  std::string bad;
  How how = fails;
  Session* session = nullptr;   // none where a course is tested alone
  bool keeps_states = false;    // copy() does, until hand_over()
  bool sends_later = false;
  std::atomic<bool> wanted{true}, alive{true}, hears{true}, stuck{false}, unstick{false};
  std::atomic<bool> others_rest{true};
  std::atomic<int> failures{0}, successes{0}, touched{0}, given_back_in_all{0}, others_stopped{0};
  std::function<void(const std::string&)> at_step;

  [[nodiscard]] std::string log() {
    const std::lock_guard lock(m_mutex);
    return m_log;
  }

  Progress look(const Dispatch& given) noexcept override {
    ++touched;
    const Facts& it = facts_of(given);
    return {it.reached, it.ended, it.left, it.gives_back, it.destroyed};
  }
  Result<void> hold(Dispatch& it, const std::vector<const Dispatch*>& stopped, Limit limit) noexcept override {
    others_stopped = static_cast<int>(stopped.size());
    return step(it, "hold", limit);
  }
  Result<void> drain(Dispatch& it, Limit limit) noexcept override { return step(it, "drain", limit); }
  Result<void> describe(Dispatch& it, Limit limit) noexcept override { return step(it, "describe", limit); }
  Result<std::uint64_t> copy(Dispatch& it, State state, Limit limit) noexcept override {
    if (Result<void> done = step(it, state == State::pre ? "pre" : "post", limit); !done) return done.error();
    return std::uint64_t{11};
  }
  Result<void> undisturbed(const Dispatch& it, State state) noexcept override {
    return step(it, state == State::pre ? "undisturbed" : "undisturbed again", Limit(0));
  }
  void go(Dispatch& given) noexcept override {
    Facts& it = facts_of(given);
    const bool never_ends = it.hangs || (bad == "kernel" && given.number == 0);
    say("go");
    if (never_ends && !stuck && at_step) at_step("kernel");
    if (never_ends) stuck = true;
    if (!never_ends) it.ended = it.left = true;
  }
  std::uint64_t duration_ns(const Dispatch&) noexcept override { return 7; }
  Result<bool> hand_over(Dispatch& it) noexcept override {
    if (!keeps_states) return true;
    if (Result<void> sent = step(it, "hand over", Limit(0)); !sent) return sent.error();
    return !sends_later;
  }
  void complete(Dispatch& it) noexcept override { ++facts_of(it).completed, say("complete"); }
  void release(Dispatch& it) noexcept override { ++facts_of(it).released, say("release"); }
  void give_back(Dispatch& it) noexcept override { ++facts_of(it).given_back, ++touched, ++given_back_in_all; }
  bool at_rest() noexcept override { return ++touched, others_rest.load(); }

  bool active() const noexcept override { return wanted; }
  bool connected() const noexcept override { return alive; }
  bool listens() const noexcept override { return hears; }
  bool ready(const Dispatch& it) noexcept override {
    CHECK(it.cost.duration_ns == 0 && it.cost.copied_bytes == 11);
    return say("ready"), alive.load();
  }
  bool done(const Dispatch& it) noexcept override {
    const Cost& cost = it.cost;
    CHECK(cost.duration_ns == 7 && cost.copied_bytes == 11);
    CHECK(cost.held_ns >= cost.drain_ns + cost.pre_copy_ns + cost.post_copy_ns);
    say("done");
    ++successes;
    return alive;
  }
  void failed(const Dispatch&, const Error& why) noexcept override { say("failed: " + why.message), ++failures; }

 private:
  void say(const std::string& what) {
    ++touched;
    const std::lock_guard lock(m_mutex);
    m_log += (m_log.empty() ? "" : ", ") + what;
  }
  Result<void> step(const Dispatch& it, const char* name, Limit limit) noexcept {
    const auto until = Clock::now() + limit;
    say(name);
    if (at_step) at_step(name);
    if (bad != name || it.number != 0) return {};
    stuck = true;
    if (how == stalls) return Error{ErrorCode::stalled, "stalled"};
    if (how == fails || !can_hang(name)) return Error{ErrorCode::device, "bad"};
    const auto ends = [this] { return session != nullptr && session->ends(); };
    while (how == hangs_on ? !unstick.load() : !ends() && Clock::now() < until) std::this_thread::yield();
    if (how == hangs_on) return Error{ErrorCode::device, "late"};
    if (ends()) return Error{ErrorCode::io, "ends"};
    return Error{ErrorCode::timeout, "timeout"};
  }

  std::mutex m_mutex;
  std::string m_log;
};

template <typename Condition>
void wait_for(Condition condition) {
  const auto until = Clock::now() + std::chrono::seconds(60);
  while (!condition() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::microseconds(50));
  CHECK(condition());
}

// A stub, a session over it, and its thread.
struct Rig {
  explicit Rig(std::string bad = "", Stub::How how = Stub::fails, bool with_post = true,
               milliseconds limit = milliseconds(60'000))
      : session(stub, stub, {limit, with_post, 0}) {
    stub.bad = std::move(bad);
    stub.how = how;
    stub.session = &session;
  }
  void start() {
    thread = std::thread([this] { session.run(); });
  }
  std::shared_ptr<Facts> add(bool reached = true, bool owes_completion = true) {
    auto made = std::make_unique<StubDispatch>();
    made->owes_completion = owes_completion;
    made->facts->reached = reached;
    std::shared_ptr<Facts> known = made->facts;
    std::unique_ptr<Dispatch> given = std::move(made);
    CHECK(session.add(given) && given == nullptr);
    return known;
  }
  ~Rig() {
    stub.unstick = true;
    (void)session.end(std::chrono::seconds(60));
    if (thread.joinable()) thread.join();
  }
  Stub stub;
  Session session;
  std::thread thread;
};

}  // namespace kerncap::test
