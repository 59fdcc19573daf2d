"""A Ray cluster of several nodes on this machine. Run as a program.

ray_cluster.py NODES [--gpus]

Prints the cluster's address; "kill" on standard input kills one node, with all in it, and is answered with
"killed"; the end of the input ends all of them. --gpus: each node has one of this machine's GPUs.
"""

from __future__ import annotations

import os
import sys

from ray.cluster_utils import Cluster

_STORE_BYTES = 100 << 20


def main() -> None:
    # The head runs no workers, so that no test kills it.
    head = {"num_cpus": 0, "num_gpus": 0, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes = []
        for number in range(int(sys.argv[1])):
            gpus = {"num_gpus": 0}
            if "--gpus" in sys.argv[2:]:
                gpus = {"num_gpus": 1}
                os.environ["CUDA_VISIBLE_DEVICES"] = str(number)  # the node's, and its actors'
            nodes.append(cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES, **gpus))
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
