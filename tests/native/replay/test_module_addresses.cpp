// Modules that a driver loads where it likes: variables that are linked to their captured places, those that are not,
// those that a rebuilt code object calls otherwise, and addresses of functions that memory holds.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "../check.hpp"
#include "replay/moved_variables.hpp"
#include "replay/stored_functions.hpp"
#include "stub_driver.hpp"

using namespace kerncap;
using replay::MovedVariables;
using replay::StoredFunctions;

namespace {

using Bytes = std::vector<std::byte>;

Bytes words(std::initializer_list<std::uint64_t> values) {
  Bytes bytes(values.size() * 8);
  std::size_t at = 0;
  for (const std::uint64_t value : values) std::memcpy(&bytes[8 * at++], &value, 8);
  return bytes;
}

// Memory by address, and one module's variables by name.
class ModuleDriver final : public test::StubDriver {
 public:
  ModuleDriver() : StubDriver({1, 4096}) {}
  InPlace in_place(std::uint64_t address, std::uint64_t) const override {
    for (const auto& [base, bytes] : memory) {
      if (base <= address && address < base + bytes.size()) {
        return {const_cast<std::byte*>(&bytes[address - base]), false};
      }
    }
    return {};
  }
  core::Result<void> read(const replay::Region&, std::uint64_t address, std::span<std::byte> data) override {
    std::memcpy(data.data(), in_place(address, data.size()).memory, data.size());
    return {};
  }
  std::map<std::uint64_t, Bytes> memory;
};

struct Module final : replay::Code {
  explicit Module(const ModuleDriver& driver) : memory(driver.memory) {}
  std::optional<std::uint64_t> variable(const std::string& name, std::uint64_t bytes) const override {
    const auto found = variables.find(name);
    if (found == variables.end() || memory.at(found->second).size() != bytes) return std::nullopt;
    return found->second;
  }

  const std::map<std::uint64_t, Bytes>& memory;
  std::map<std::string, std::uint64_t> variables;
};

constexpr std::uint64_t k_captured = 0x1000;   // where the variable was, and memory is
constexpr std::uint64_t k_own = 0x9000;        // where the module has it now

struct Fixture {
  Fixture() {
    driver.memory[k_captured] = words({1, 2});
    driver.memory[k_own] = words({7, 7});
    code.variables["table"] = k_own;
    replay::Region region;
    region.base = k_captured;
    region.bytes = 16;
    plan.regions.push_back(region);
    plan.variables.push_back({"table", k_captured, 16, nullptr, nullptr});
  }
  MovedVariables bound(bool is_variant, const Bytes& captured, const Bytes& initial, const StoredFunctions& functions = {}) {
    MovedVariables variables(plan, driver, code, is_variant, is_linked);
    CHECK(variables.bind({{&plan.variables[0], captured}}, {{&plan.variables[0], initial}}, functions).ok());
    CHECK(variables.restore().ok());
    return variables;
  }

  bool is_linked = true;
  ModuleDriver driver;
  replay::Plan plan;
  Module code{driver};
};

void a_variable_that_is_not_linked_is_filled_where_the_module_has_it() {
  Fixture fixture;
  fixture.bound(false, words({1, 2}), words({0, 0}));
  CHECK(fixture.driver.memory[k_own] == words({1, 2}));
}

void a_linked_variable_is_left_where_it_was() {
  Fixture fixture;
  fixture.plan.fixed.insert("table");
  MovedVariables variables = fixture.bound(false, words({1, 2}), words({0, 0}));
  CHECK(fixture.driver.memory[k_own] == words({7, 7}));
  fixture.driver.memory[k_captured] = words({1, 3});
  CHECK(variables.collect().ok());
  Bytes seen = words({1, 3});
  variables.overlay(k_captured, seen);
  CHECK(seen == words({1, 3}));
}

void a_code_object_that_was_not_linked_has_a_place_of_its_own() {
  Fixture fixture;
  fixture.plan.fixed.insert("table");
  fixture.is_linked = false;
  fixture.bound(false, words({1, 2}), words({0, 0}));
  CHECK(fixture.driver.memory[k_own] == words({1, 2}));
}

// The program and the kernel never changed it: an edit of its initial value counts, and is no output.
void a_linked_variable_that_nobody_changed_has_the_value_of_the_variant() {
  Fixture fixture;
  fixture.plan.variant_fixed.insert("table");
  MovedVariables variables = fixture.bound(true, words({1, 2}), words({1, 2}));
  CHECK(fixture.driver.memory[k_captured] == words({7, 7}));
  fixture.driver.memory[k_captured] = words({7, 8});   // the run writes the second word
  CHECK(variables.collect().ok());
  Bytes seen = fixture.driver.memory[k_captured];
  variables.overlay(k_captured, seen);
  CHECK(seen == words({1, 8}));
}

void a_variant_may_call_a_variable_otherwise() {
  Fixture fixture;
  fixture.code.variables = {{"other", k_own}};
  fixture.plan.renamed["table"] = "other";
  fixture.bound(false, words({1, 2}), words({0, 0}));
  CHECK(fixture.driver.memory[k_own] == words({7, 7}));
  fixture.bound(true, words({1, 2}), words({0, 0}));
  CHECK(fixture.driver.memory[k_own] == words({1, 2}));
}

void addresses_of_functions_lead_to_where_they_are_now_and_back() {
  Fixture fixture;
  fixture.driver.memory[k_own] = words({0xAAAA00, 0xBBBB00});
  fixture.plan.functions = {{false, 0x5500, "table", 16, 0}, {false, 0x6600, "table", 16, 8}, {true, 0x7700, "table", 16, 0}};
  StoredFunctions functions;
  CHECK(!functions.wanted());
  CHECK(functions.look_up(fixture.plan, fixture.driver, fixture.code, false, true).ok());
  CHECK(functions.wanted());
  const Bytes before = words({0x5500, 0x5501, 0x6600, 0x7700, 0, ~std::uint64_t{0}, 0x5500});
  Bytes data = before;
  data.push_back(std::byte{0x55});             // a part of a word
  CHECK(functions.bring_here(data) == 3);
  data.pop_back();
  CHECK(data == words({0xAAAA00, 0x5501, 0xBBBB00, 0x7700, 0, ~std::uint64_t{0}, 0xAAAA00}));
  CHECK(functions.take_back(data) == 3);
  CHECK(data == before);
  // Another code object, which runs in turn: what it stores is taken back too.
  fixture.driver.memory[k_own] = words({0xCCCC00, 0});
  CHECK(functions.look_up(fixture.plan, fixture.driver, fixture.code, true, false).ok());
  Bytes stored = words({0xCCCC00, 0xAAAA00, 0x7700});
  CHECK(functions.take_back(stored) == 2);
  CHECK(stored == words({0x7700, 0x5500, 0x7700}));
  CHECK(functions.bring_here(stored) == 1);
  fixture.bound(false, words({0x5500, 2}), words({0, 0}), functions);
  CHECK(fixture.driver.memory[k_own] == words({0xAAAA00, 2}));
}

}  // namespace

int main() {
  a_variable_that_is_not_linked_is_filled_where_the_module_has_it();
  a_linked_variable_is_left_where_it_was();
  a_code_object_that_was_not_linked_has_a_place_of_its_own();
  a_linked_variable_that_nobody_changed_has_the_value_of_the_variant();
  a_variant_may_call_a_variable_otherwise();
  addresses_of_functions_lead_to_where_they_are_now_and_back();
  return test::exit_code();
}
