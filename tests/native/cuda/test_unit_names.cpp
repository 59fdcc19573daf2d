// Kernels of anonymous namespaces, compiled in two folders.
#include <string>

#include "../check.hpp"
#include "cuda/driver/unit_names.hpp"

using kerncap::cuda::same_but_for_unit;

int main() {
  const std::string here = "_ZN36_GLOBAL__N__ad82676b_4_a_cu_acc5a52f4anonEPf";
  CHECK(same_but_for_unit(here, "_ZN36_GLOBAL__N__ca0462f3_4_a_cu_acc5a52f4anonEPf"));
  CHECK(same_but_for_unit("_ZN34_GLOBAL__N__1295a4e2_4_w_cu__Z1kPi6hiddenEPi", "_ZN34_GLOBAL__N__5fce3129_4_w_cu__Z1kPi6hiddenEPi"));
  CHECK(same_but_for_unit("_Z5plainPf", "_Z5plainPf"));
  CHECK(same_but_for_unit("_ZN1a42_INTERNAL_00000001_7_main_cu_000000021fEv", "_ZN1a42_INTERNAL_00000003_7_main_cu_000000021fEv"));
  CHECK(!same_but_for_unit(here, "_ZN36_GLOBAL__N__ca0462f3_4_b_cu_acc5a52f4anonEPf"));  // another file's
  CHECK(!same_but_for_unit(here, "_ZN36_GLOBAL__N__ca0462f3_4_a_cu_acc5a52f4anonEPd"));  // another signature
  CHECK(!same_but_for_unit("_Z5plainPf", "_Z5plainPd"));
  for (std::size_t length = 0; length < here.size(); ++length) {
    CHECK(same_but_for_unit(here.substr(0, length), here.substr(0, length)));
    CHECK(!same_but_for_unit(here.substr(0, length), here));
  }
  CHECK(!same_but_for_unit("_GLOBAL__N__ad82676b_x", "_GLOBAL__N__ca0462f3_x"));
  CHECK(!same_but_for_unit("_GLOBAL__N__ad82676b__x", "_GLOBAL__N__ca0462f3__x"));
  return kerncap::test::exit_code();
}
