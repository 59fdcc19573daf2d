"""A Ray cluster of several nodes on this machine. Run as a program.

ray_cluster.py NODES     prints the cluster's address; "kill" on standard input kills one node, with all in
                         it, and is answered with "killed"; the end of the input ends all of them
"""

from __future__ import annotations

import sys

from ray.cluster_utils import Cluster


def main() -> None:
    # The head runs no workers, so that no test kills it.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(int(sys.argv[1]))]
        cluster.wait_for_nodes()
        print(cluster.address, flush=True)
        for line in sys.stdin:
            if line.strip() == "kill":
                cluster.remove_node(nodes.pop(), allow_graceful=False)
                print("killed", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
