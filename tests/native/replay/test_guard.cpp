// Which memory guarded runs may not write, in whole granules, and what runs there are of a kernel that does.
#include <functional>
#include <utility>
#include <vector>

#include "../check.hpp"
#include "one_region.hpp"
#include "replay/guard.hpp"
#include "stub_driver.hpp"

using namespace kerncap;
using replay::Guard;

namespace {

constexpr std::uint64_t k_granule = 0x1000;

replay::Region region_at(std::uint64_t base, std::uint64_t bytes, const replay::Memory& memory) {
  replay::Region region;
  region.base = base;
  region.bytes = bytes;
  region.pre = region.post = &memory;
  return region;
}

bool any_region(const replay::Region&) { return true; }

// The guarded parts of the granules 0x10000 to 0x1A000, as numbers of granules: first and behind the last.
std::vector<std::pair<int, int>> guarded(const replay::Plan& plan, const std::function<bool(const replay::Region&)>& can = any_region) {
  std::vector<std::pair<int, int>> found;
  std::uint64_t at = 0x10000;
  for (const Guard::Piece& piece : Guard(plan, k_granule, can).cut(0x10000, 0xA000)) {
    CHECK(piece.base == at && piece.bytes != 0);  // they are all of it, in order
    at += piece.bytes;
    if (piece.guarded) found.emplace_back((piece.base - 0x10000) / k_granule, (at - 0x10000) / k_granule);
  }
  CHECK(at == 0x1A000);
  return found;
}

using Found = std::vector<std::pair<int, int>>;

void test_only_whole_granules_without_a_written_byte_are_guarded() {
  const replay::Memory memory;
  replay::Plan plan;
  plan.guarded = true;
  plan.regions = {region_at(0x10000, 0x4000, memory), region_at(0x14000, 0x800, memory), region_at(0x14800, 0x100, memory),
                  region_at(0x16000, 0x10, memory), region_at(0x17000, 0x2000, memory)};
  plan.regions[0].written = {{0x1FFF, 2}};            // of the granules 1 and 2
  plan.regions[2].written = {{0, 1}};                 // its neighbour is in the same granule
  CHECK((guarded(plan) == Found{{0, 1}, {3, 4}, {6, 9}}));
  plan.open = {{0x17800, 1}};
  CHECK((guarded(plan) == Found{{0, 1}, {3, 4}, {6, 7}, {8, 9}}));
  plan.guarded = false;
  CHECK(guarded(plan).empty());
}

void test_memory_whose_rights_cannot_be_taken_is_open() {
  const replay::Memory memory;
  replay::Plan plan;
  plan.guarded = true;
  plan.regions = {region_at(0x10000, 0x1000, memory), region_at(0x11000, 0x1000, memory), region_at(0x12000, 0x1000, memory),
                  region_at(0x13000, 0x1000, memory), region_at(0x14000, 0x1000, memory), region_at(0x15000, 0x1000, memory)};
  plan.regions[0].flags = replay::k_flag_read_only;
  plan.regions[1].post = nullptr;                     // nobody knows what is written there
  plan.regions[2].own_code = true;
  plan.regions[3].kind = replay::Kind::host_pinned;
  plan.regions[4].piece = 1;
  CHECK((guarded(plan, [](const replay::Region& region) { return !region.on_host(); }) == Found{{5, 6}}));
  CHECK((guarded(plan) == Found{{3, 4}, {5, 6}}));
}

void test_of_many_parts_the_largest_are_guarded() {
  const replay::Memory memory;
  replay::Plan plan;
  plan.guarded = true;
  plan.regions = {region_at(0x10000, 1000 * k_granule, memory)};
  for (std::uint64_t i = 0; i < 400; ++i) plan.open.push_back({0x10000 + (2 * i + 1) * k_granule, 1});
  std::uint64_t parts = 0;
  std::uint64_t last = 0;
  for (const Guard::Piece& piece : Guard(plan, k_granule, any_region).cut(0x10000, 1000 * k_granule)) {
    parts += piece.guarded ? 1 : 0;
    if (piece.guarded) last = piece.bytes;
  }
  CHECK(parts == 256);
  CHECK(last == 200 * k_granule);
}

constexpr std::uint64_t k_base = 0x7F0000000000;
constexpr std::size_t k_words = core::k_chunk_bytes / sizeof(std::uint32_t) + 1;

// A kernel that writes 2, and may write elsewhere in one of its launches; that is a fault while the guard is on.
class GuardedDriver : public test::MemoryDriver {
 public:
  explicit GuardedDriver(int astray_in) : MemoryDriver(k_base, k_words), m_astray_in(astray_in) {}
  core::Result<void> guard(bool on) override {
    CHECK(on != m_on);
    m_on = on;
    return {};
  }
  std::uint64_t guarded_bytes() const override { return 4096; }
  core::Result<replay::Timing> launch(replay::Code&, const replay::Launch&) override {
    m_memory[0] = 2;
    guarded_launches += m_on ? 1 : 0;
    const bool is_astray = m_launches++ == m_astray_in || (m_on && m_astray_in < 0);
    if (m_on && is_astray) return core::Error{core::ErrorCode::device, "a fault"};
    return replay::Timing{1};
  }

  int guarded_launches = 0;

 private:
  int m_astray_in;                        // the number of a launch; negative: each
  int m_launches = 0;
  bool m_on = false;
};

replay::Outcome run(GuardedDriver& device, std::uint64_t repeats, bool guarded) {
  test::OneRegion bench(k_base, k_words);
  bench.plan.guarded = guarded;
  replay::Options options;
  options.repeats = repeats;
  options.repeat_ms = 10'000;
  return bench.run(options, device);
}

void test_there_are_as_many_guarded_runs_as_others() {
  GuardedDriver device(1000);
  const replay::Outcome outcome = run(device, 5, true);
  CHECK(outcome.guarded.size() == 1 && outcome.guarded[0].runs == 6 && outcome.guarded[0].fault.empty());
  CHECK(outcome.guarded_bytes == 4096);
  CHECK(device.guarded_launches == 6);
  GuardedDriver other(1000);
  CHECK(run(other, 5, false).guarded.empty() && other.guarded_launches == 0);
}

void test_a_fault_in_a_guarded_run_leaves_what_the_others_found() {
  GuardedDriver always(-1);
  const replay::Outcome outcome = run(always, 5, true);
  CHECK(outcome.repeats == 5 && outcome.repeats_differing == 0);
  CHECK(outcome.guarded.size() == 1 && outcome.guarded[0].runs == 0 && outcome.guarded[0].fault == "a fault");
  GuardedDriver later(8);                  // behind 6 that are not guarded, and 2 that are
  const replay::Outcome second = run(later, 5, true);
  CHECK(second.guarded.size() == 1 && second.guarded[0].runs == 2 && second.guarded[0].fault == "a fault");
}

}  // namespace

int main() {
  test_only_whole_granules_without_a_written_byte_are_guarded();
  test_memory_whose_rights_cannot_be_taken_is_open();
  test_of_many_parts_the_largest_are_guarded();
  test_there_are_as_many_guarded_runs_as_others();
  test_a_fault_in_a_guarded_run_leaves_what_the_others_found();
  return test::exit_code();
}
