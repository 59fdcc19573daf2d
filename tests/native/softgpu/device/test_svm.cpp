// Attributes of shared virtual memory, and the access that they give.
#include <cerrno>
#include <memory>
#include <vector>

#include "check.hpp"
#include "softgpu/device/svm.hpp"

using namespace kerncap::softgpu;

namespace {

constexpr std::uint64_t k_page = 4096, k_begin = 0x100000;

struct Fixture {
  Fixture() {
    for (unsigned i = 0; i < 2; ++i) gpus.push_back(std::make_unique<Gpu>(i, 100 + i, chip_of(Target::gfx90a)));
  }
  [[nodiscard]] Rights rights(unsigned gpu, std::uint64_t va) const { return AddressSpace::View(gpus[gpu]->space).find(va).rights; }
  [[nodiscard]] kfd_ioctl_svm_attribute get(std::uint64_t begin, std::uint64_t pages, std::uint32_t type, std::uint32_t value = 0) {
    kfd_ioctl_svm_attribute attribute{type, value};
    CHECK(ranges.get(begin, pages * k_page, {&attribute, 1}) == 0);
    return attribute;
  }
  int set(std::uint64_t begin, std::uint64_t pages, std::vector<kfd_ioctl_svm_attribute> attributes) {
    return ranges.set(begin, pages * k_page, attributes, mappings);
  }

  std::vector<HostMapping> mappings{{0, ~std::uint64_t{0}, Rights::all}};
  std::vector<std::unique_ptr<Gpu>> gpus;
  SvmRanges ranges{gpus};
};

void access_maps_and_no_access_unmaps() {
  Fixture f;
  CHECK(f.rights(0, k_begin) == Rights::none);
  CHECK(f.set(k_begin, 10, {{KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, 100}}) == 0);
  CHECK(f.rights(0, k_begin) == (Rights::read | Rights::write) && f.rights(1, k_begin) == Rights::none);
  CHECK(f.set(k_begin + 4 * k_page, 2, {{KFD_IOCTL_SVM_ATTR_NO_ACCESS, 100}, {KFD_IOCTL_SVM_ATTR_ACCESS, 101}}) == 0);
  CHECK(f.rights(0, k_begin + 3 * k_page) != Rights::none && f.rights(0, k_begin + 4 * k_page) == Rights::none);
  CHECK(f.rights(0, k_begin + 5 * k_page) == Rights::none && f.rights(0, k_begin + 6 * k_page) != Rights::none);
  CHECK(f.rights(1, k_begin + 5 * k_page) != Rights::none && f.rights(1, k_begin + 6 * k_page) == Rights::none);
  CHECK(f.set(k_begin, 1, {{KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO | KFD_IOCTL_SVM_FLAG_GPU_EXEC}}) == 0);
  CHECK(f.rights(0, k_begin) == (Rights::read | Rights::execute));
}

void gpu_may_not_do_what_the_program_may_not() {
  Fixture f;
  f.mappings = {{k_begin, k_begin + k_page, Rights::read | Rights::write},
                {k_begin + k_page, k_begin + 2 * k_page, Rights::read},
                {k_begin + 2 * k_page, k_begin + 3 * k_page, Rights::none}};
  CHECK(f.set(k_begin, 3, {{KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, 100}}) == 0);
  CHECK(f.rights(0, k_begin) == (Rights::read | Rights::write) && f.rights(0, k_begin + k_page) == Rights::read);
  CHECK(f.rights(0, k_begin + 2 * k_page) == Rights::none);
}

void answers_what_was_set() {
  Fixture f;
  CHECK(f.get(k_begin, 4, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC).value == KFD_IOCTL_SVM_LOCATION_UNDEFINED);
  CHECK(f.get(k_begin, 4, KFD_IOCTL_SVM_ATTR_ACCESS, 100).type == KFD_IOCTL_SVM_ATTR_NO_ACCESS);
  CHECK(f.set(k_begin, 2, {{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 101}, {KFD_IOCTL_SVM_ATTR_GRANULARITY, 4}}) == 0);
  CHECK(f.get(k_begin, 2, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC).value == 101);
  CHECK(f.get(k_begin + k_page, 1, KFD_IOCTL_SVM_ATTR_GRANULARITY).value == 4);
  // Where parts differ there is no answer.
  CHECK(f.get(k_begin, 4, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC).value == KFD_IOCTL_SVM_LOCATION_UNDEFINED);
  CHECK(f.set(k_begin, 4, {{KFD_IOCTL_SVM_ATTR_ACCESS, 100}}) == 0);
  CHECK(f.set(k_begin, 1, {{KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, 100}}) == 0);
  CHECK(f.get(k_begin, 1, KFD_IOCTL_SVM_ATTR_ACCESS, 100).type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE);
  CHECK(f.get(k_begin, 4, KFD_IOCTL_SVM_ATTR_ACCESS, 100).type == KFD_IOCTL_SVM_ATTR_ACCESS);
  CHECK(f.get(k_begin, 5, KFD_IOCTL_SVM_ATTR_ACCESS, 100).type == KFD_IOCTL_SVM_ATTR_NO_ACCESS);
  CHECK(f.set(k_begin, 2, {{KFD_IOCTL_SVM_ATTR_CLR_FLAGS, KFD_IOCTL_SVM_FLAG_COHERENT}}) == 0);
  CHECK((f.get(k_begin, 4, KFD_IOCTL_SVM_ATTR_SET_FLAGS).value & KFD_IOCTL_SVM_FLAG_COHERENT) == 0);
  CHECK((f.get(k_begin + 2 * k_page, 2, KFD_IOCTL_SVM_ATTR_SET_FLAGS).value & KFD_IOCTL_SVM_FLAG_COHERENT) != 0);
}

void bad_requests_change_nothing() {
  Fixture f;
  CHECK(f.set(k_begin, 0, {}) == -EINVAL);
  CHECK(f.ranges.set(k_begin + 1, k_page, {}, f.mappings) == -EINVAL);
  CHECK(f.set(k_begin, 1, {{KFD_IOCTL_SVM_ATTR_ACCESS, 100}, {KFD_IOCTL_SVM_ATTR_ACCESS, 999}}) == -EINVAL);
  CHECK(f.set(k_begin, 1, {{1234, 0}}) == -EINVAL);
  CHECK(f.rights(0, k_begin) == Rights::none);
}

}  // namespace

int main() {
  access_maps_and_no_access_unmaps();
  gpu_may_not_do_what_the_program_may_not();
  answers_what_was_set();
  bad_requests_change_nothing();
  return test::exit_code();
}
