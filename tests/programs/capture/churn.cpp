// Allocates, frees, maps, unmaps, pins and unpins at random while a kernel runs again and again. At each target it
// writes down what the GPU can reach then. usage: churn CODE_OBJECT SEED ROUNDS; prints "ROUND KIND ADDRESS BYTES".
#include <sys/mman.h>

#include <map>

#include "hsa_kernel.hpp"

namespace {

constexpr std::size_t k_page = 4096;

struct Piece {
  const char* kind;
  void* device;
  void* host;
  std::size_t bytes;
  std::size_t shown_bytes;
  hsa_amd_vmem_alloc_handle_t handle;
};

class Churn {
 public:
  Churn(const Machine& machine, std::uint64_t seed) : m_machine(machine), m_random(seed) {}

  void step() {
    if (m_pieces.empty() || (m_pieces.size() < 40 && m_random.whole(0, 2) == 0)) return add();
    remove(static_cast<std::size_t>(m_random.whole(0, static_cast<int>(m_pieces.size()))));
  }
  void print(int round) const {
    for (const Piece& piece : m_pieces) std::printf("%d %s %p %zu\n", round, piece.kind, piece.device, piece.shown_bytes);
  }

 private:
  void add() {
    const std::size_t bytes = k_page * static_cast<std::size_t>(m_random.whole(1, 40));
    const Agent& gpu = m_machine.gpus[0];
    Piece piece{"", nullptr, nullptr, bytes, bytes, {}};
    switch (m_random.whole(0, 4)) {
      case 0:
        piece.kind = "device_coarse";
        piece.bytes = bytes - 100;  // what is left of the last page is the program's, too
        HSA_OK(hsa_amd_memory_pool_allocate(gpu.coarse().handle, piece.bytes, 0, &piece.device));
        piece.shown_bytes = (piece.bytes + gpu.coarse().granule_bytes - 1) / gpu.coarse().granule_bytes * gpu.coarse().granule_bytes;
        break;
      case 1:
        piece.kind = "host_pinned";
        HSA_OK(hsa_amd_memory_pool_allocate(m_machine.cpus[0].fine().handle, bytes, 0, &piece.device));
        HSA_OK(hsa_amd_agents_allow_access(1, &gpu.handle, nullptr, piece.device));
        break;
      case 2:
        piece.kind = "host_registered";
        piece.host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        std::memset(piece.host, 1, bytes);
        HSA_OK(hsa_amd_memory_lock(piece.host, bytes, const_cast<hsa_agent_t*>(&gpu.handle), 1, &piece.device));
        break;
      default:
        piece.kind = "vmem";
        map(piece);
        break;
    }
    m_pieces.push_back(piece);
  }

  void map(Piece& piece) const {
    const Agent& gpu = m_machine.gpus[0];
    const std::size_t granule = gpu.coarse().granule_bytes;
    piece.bytes = piece.shown_bytes = (piece.bytes + granule - 1) / granule * granule;
    HSA_OK(hsa_amd_vmem_handle_create(gpu.coarse().handle, piece.bytes, MEMORY_TYPE_NONE, 0, &piece.handle));
    HSA_OK(hsa_amd_vmem_address_reserve(&piece.device, piece.bytes, 0, 0));
    HSA_OK(hsa_amd_vmem_map(piece.device, piece.bytes, 0, piece.handle, 0));
    const hsa_amd_memory_access_desc_t access{HSA_ACCESS_PERMISSION_RW, gpu.handle};
    HSA_OK(hsa_amd_vmem_set_access(piece.device, piece.bytes, &access, 1));
  }

  void remove(std::size_t which) {
    const Piece piece = m_pieces[which];
    m_pieces.erase(m_pieces.begin() + static_cast<std::ptrdiff_t>(which));
    const std::string kind = piece.kind;
    if (kind == "vmem") {
      HSA_OK(hsa_amd_vmem_unmap(piece.device, piece.bytes));
      HSA_OK(hsa_amd_vmem_handle_release(piece.handle));
      HSA_OK(hsa_amd_vmem_address_free(piece.device, piece.bytes));
    } else if (kind == "host_registered") {
      HSA_OK(hsa_amd_memory_unlock(piece.host));
      munmap(piece.host, piece.bytes);
    } else {
      HSA_OK(hsa_amd_memory_pool_free(piece.device));
    }
  }

  const Machine& m_machine;
  Random m_random;
  std::vector<Piece> m_pieces;
};

}  // namespace

int main(int, char** argv) {
  Tally tally("churn");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], true);
  const int rounds = std::atoi(argv[3]);
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 1024, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  auto* words = static_cast<unsigned*>(kernarg_memory(machine, k_page));
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, k_page));
  words[0] = words[1] = 0;
  arguments[0] = &words[0];
  arguments[8] = &words[1];
  Churn churn(machine, std::strtoull(argv[2], nullptr, 10));
  for (int round = 0; round < rounds; ++round) {
    const Signal others(20);
    for (int i = 0; i < 60; ++i) {
      if (i % 3 == 0) {
        const auto packet = code.dispatch("other", 1, &arguments[0], others);
        submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, false), packet.setup);
      }
      churn.step();
    }
    const Signal done(1);
    const auto packet = code.dispatch("target", 1, &arguments[8], done);
    submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
    done.wait("the target");
    others.wait("the others");
    churn.print(round);
  }
  tally.equal("target", 0, words[1], static_cast<unsigned>(rounds));
  tally.expect(words[0] > 0, "others", 0, words[0], 1);
  return tally.finish();
}
