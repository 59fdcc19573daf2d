// The course of a replay, whatever the back end: place, restore, run, compare.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/object_store.hpp"
#include "core/result.hpp"
#include "replay/driver.hpp"
#include "replay/moved_variables.hpp"
#include "replay/own_data.hpp"
#include "replay/plan.hpp"
#include "replay/progress.hpp"
#include "replay/references.hpp"
#include "replay/repeats.hpp"
#include "replay/stored_functions.hpp"
#include "replay/unchanged.hpp"

namespace kerncap::replay {

// The time for further runs is so many times longer while the variant's own variables change.
inline constexpr int k_unsettled_times = 600;

struct Options {
  std::uint64_t iterations = 1;
  std::uint64_t warmup = 0;
  bool flush_cache = false;
  bool compare = true;                    // with the golden post-state, after the last run
  bool interleave = false;                // baseline and variant in turn
  bool verify = true;                     // hash what is restored once more
  std::uint64_t repeats = 0;              // further runs from the same state, to be compared with the first
  std::uint64_t repeat_ms = 0;            // after which no more of them is begun
  std::uint64_t unsettled_repeats = 0;    // so many in all while the variant's own variables change from run to run
  std::uint64_t keep_differing = 1;       // of those that leave something else, so many are dumped
  std::uint64_t states_within_ms = ~std::uint64_t{0};  // further states are left out where the first run takes longer
  std::optional<std::uint64_t> order = {};  // of waves, as a seed: in every second further run, where the device lets us choose
  bool restore_all = false;               // between runs, whatever the captured kernel writes
  bool timed = true;                      // whether anybody wants to know how long a run takes
  std::string dump_folder;
  std::string states_folder;              // for what timed runs leave that is not the golden state; empty: not wanted
  bool changes_only = false;              // dump only the chunks that are not as they were before
  bool quiet = false;                     // no output but the report
  std::string report_file;                // empty: standard output
  pid_t parent = 0;                       // who started this process, and reads the report; 0: not told
  std::string progress_file;              // empty: nobody wants to know how far it is
  std::optional<std::array<std::uint64_t, 3>> grid;
  std::optional<std::array<std::uint32_t, 3>> block;
  std::optional<std::uint32_t> dynamic_lds_bytes;
};

// How one region (or variable) differs from its golden state.
struct Difference {
  std::string name;                       // of a variable; empty for a region
  std::uint64_t base;
  std::uint64_t first_offset;             // of the first byte that differs
  std::uint64_t bytes;
};

// What a run left, compared with the golden state.
struct Comparison {
  bool compared = false;
  std::uint64_t bytes = 0;
  std::vector<Difference> differences;
  std::vector<std::string> notes;         // for people
};

// Guarded runs from one state.
struct Guarded {
  std::uint64_t state = 0;                // its number among the plan's; 0: the captured one
  std::uint64_t runs = 0;                 // that completed
  std::string fault;                      // of the kernel in the run behind these; empty: none
  std::string failure;                    // of ours
};

struct Outcome {
  std::vector<std::uint64_t> baseline_ns;
  std::vector<std::uint64_t> variant_ns;
  // What each timed run left, as a number: 0 is the golden state, others are those of the folder's `state_N`; empty where
  // nothing was compared.
  std::vector<std::uint64_t> baseline_states;
  std::vector<std::uint64_t> variant_states;
  std::uint64_t first_state = 0;          // of these: the others' files have what differs from it
  std::uint64_t variant_address = 0;      // where the variant's code object lay
  std::uint64_t variant_bytes = 0;
  std::uint64_t restored_bytes = 0;
  std::uint64_t restore_ns = 0;
  bool compared = false;
  std::uint64_t compared_bytes = 0;
  std::vector<Difference> differences;
  std::vector<AddressRange> outside;      // written, and no region's
  std::uint64_t repeats = 0;
  std::uint64_t repeats_differing = 0;    // left something else than the first run
  bool unsettled = false;                 // the variant's own variables still changed in the last of them
  std::uint64_t states = 0;               // further ones that were run from
  std::uint64_t guarded_bytes = 0;        // that could not be written in guarded runs
  std::vector<Guarded> guarded;
  std::string ran_once;                   // why there is one run only, for people; empty: there are more, or nobody wanted any
  std::vector<std::string> notes;         // what cannot hold for this variant, for people
  std::vector<std::string> without;       // what this replay did without, for people: a verdict says so, too
};

class Engine {
 public:
  Engine(const Plan& plan, const Options& options, Driver& driver)
      : m_plan(plan), m_options(options), m_driver(driver), m_progress(options.progress_file), m_unchanged(plan, driver), m_code_place(plan.place_of_code()) {}

  [[nodiscard]] core::Result<Outcome> run(const std::vector<Range>& ranges);
  // Whether the error that run() returned is the kernel's own doing.
  [[nodiscard]] bool faulted() const noexcept { return m_faulted; }

 private:
  // One code object to run. Its variables are elsewhere unless it is the captured one at its own place.
  struct Candidate {
    std::unique_ptr<Code> code;
    std::unique_ptr<MovedVariables> variables;
    std::vector<std::uint64_t>* times;
    std::vector<std::uint64_t>* states;     // of its timed runs
  };

  core::Result<void> place(const std::vector<Range>& ranges);
  core::Result<void> load();
  struct Loaded {
    std::unique_ptr<Code> code;
    bool is_linked;
  };
  core::Result<Loaded> load_code(bool is_variant, std::optional<std::uint64_t> at);
  core::Result<void> add(bool is_variant, std::optional<std::uint64_t> at);
  core::Result<void> restore(const std::vector<Range>& ranges);
  core::Result<void> look_up_functions();
  core::Result<void> bind_variables();
  core::Result<MovedVariables::Contents> variables_in_place();
  core::Result<MovedVariables::Contents> variables_of(const Code& code);
  core::Result<void> save_write_set();
  core::Result<void> run_all();
  // `follows`: it comes directly behind another run, which has warmed the caches.
  core::Result<void> run_once(Candidate& candidate, bool counts, bool follows = false);
  // Whether there was one.
  core::Result<bool> run_ahead(Candidate& candidate);
  core::Result<void> take_times();
  core::Result<void> finish(Candidate& last);
  core::Result<Comparison> compare(const Candidate& last);
  core::Result<bool> compare_variables(const Candidate& last, Comparison& comparison);
  void weigh_untouched(const std::vector<Difference>& untouched, bool wrote_anything,
                       const std::function<bool(const Difference&)>& was_written_beside, Comparison& comparison);
  core::Result<void> dump(const Candidate& last, const std::string& folder);
  // `from`: the state that the run began with; null: the captured one.
  core::Result<void> dump_changes(const Candidate& last, const std::string& folder, const State* from = nullptr);
  // Of timed runs.
  core::Result<void> judge(Candidate& candidate);
  core::Result<std::uint64_t> judge_first(Candidate& candidate);
  core::Result<std::uint64_t> judge_further(Candidate& candidate);
  [[nodiscard]] core::Result<std::string> folder_of_state(std::uint64_t number) const;
  core::Result<void> repeat(Candidate& candidate);
  core::Result<void> run_states(Candidate& candidate);
  core::Result<void> change(Candidate& candidate, const State& state);
  core::Result<void> change_variables(Candidate& candidate, const State& state);
  core::Result<void> run_guarded(Candidate& candidate);
  core::Result<bool> run_guarded_once(Candidate& candidate, Guarded& guarded);
  core::Result<void> look_outside();
  // A part of what the last run left, as the captured code object would have it.
  core::Result<void> read_state(const Candidate& last, const Region& region, std::uint64_t address, std::span<std::byte> data);
  [[nodiscard]] const Variable* variable_at(std::uint64_t address) const;

  const Plan& m_plan;
  const Options& m_options;
  Driver& m_driver;
  std::shared_ptr<core::ObjectStore> m_store;
  std::unique_ptr<Code> m_beside;         // the captured code object, where only a variant is run
  std::vector<Candidate> m_candidates;
  MovedVariables::Contents m_initial;
  std::optional<References> m_references;
  Progress m_progress;
  StoredFunctions m_functions;
  std::uint64_t m_function_words = 0;     // of restored memory that were replaced
  Unchanged m_unchanged;
  const Region m_code_place;              // its base is 0
  std::set<std::string_view> m_verified;  // chunks of states that were run from
  std::map<const Variable*, std::vector<std::byte>> m_varied;  // what states change, as captured
  // What the first timed run left, with which later ones are compared; and the states that runs left, by their names.
  std::optional<Repeats> m_first;
  const Candidate* m_judged = nullptr;
  std::chrono::steady_clock::time_point m_judged_at;
  std::chrono::steady_clock::duration m_between_judgements{};
  std::map<std::string, std::uint64_t> m_states;
  std::map<std::uint64_t, Comparison> m_comparisons;
  std::uint64_t m_last_state = 0;         // the highest number of one
  std::uint64_t m_kept_bytes = 0;         // in files of states
  Outcome m_outcome;
  std::vector<std::vector<std::uint64_t>*> m_untold;  // launches whose times the driver will tell; null: they do not count
  bool m_is_fresh = true;                 // memory is as restored, and no run has changed it
  bool m_faulted = false;
  std::optional<OwnData> m_own;           // as loaded; only for guarded runs
  bool m_guards = false;                  // the next run is guarded
};

}  // namespace kerncap::replay
