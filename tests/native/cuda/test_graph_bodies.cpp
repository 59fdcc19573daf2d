// Which graphs a conditional node runs, as long as it is there.
#include "../check.hpp"
#include "cuda/graph_bodies.hpp"

using namespace kerncap;
using cuda::GraphBodies;

namespace {

CUgraph graph(std::uintptr_t number) { return reinterpret_cast<CUgraph>(number * 16); }
CUgraphNode node(std::uintptr_t number) { return reinterpret_cast<CUgraphNode>(number * 16); }

void bodies_are_known_by_their_node() {
  GraphBodies bodies;
  const CUgraph both[] = {graph(2), graph(3)};
  bodies.added(graph(1), node(1), both);
  CHECK(bodies.of(node(1)) == std::vector<CUgraph>({graph(2), graph(3)}));
  CHECK(!bodies.of(node(2)));
}

void what_is_gone_takes_all_inside_of_it_along() {
  GraphBodies bodies;
  const CUgraph outer[] = {graph(2)};
  const CUgraph inner[] = {graph(3)};
  const CUgraph beside[] = {graph(5)};
  bodies.added(graph(1), node(1), outer);
  bodies.added(graph(2), node(2), inner);
  bodies.added(graph(4), node(4), beside);
  bodies.graph_gone(graph(1));
  CHECK(!bodies.of(node(1)) && !bodies.of(node(2)) && bodies.of(node(4)));
  bodies.added(graph(1), node(1), outer);
  bodies.added(graph(2), node(2), inner);
  bodies.node_gone(node(1));
  CHECK(!bodies.of(node(1)) && !bodies.of(node(2)) && bodies.of(node(4)));
}

}  // namespace

int main() {
  bodies_are_known_by_their_node();
  what_is_gone_takes_all_inside_of_it_along();
  return test::exit_code();
}
