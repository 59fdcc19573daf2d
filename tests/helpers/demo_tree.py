"""The demo's sources as a build leaves them, and the search for one of its kernels."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from made_up import device_code, publish

from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.store import Store

DEMO = Path(__file__).parents[1] / "programs/demo"
ADD_ROWS = "_ZN4demo8add_rowsEPKfS1_Pf5Shape"


def make_tree(folder: Path) -> tuple[Path, bytes]:
    """A source tree below a folder, with a compilation database, and the device code of its kernels."""
    shutil.copytree(DEMO, folder)
    entry = {
        "directory": str(folder / "build"),
        "file": "../src/matvec.hip",
        "command": "ccache hipcc -O3 -I../include -DUNUSED='\"a b\"' --offload-arch=native -MD -MF x.d "
        "-o matvec.o -c ../src/matvec.hip",
    }
    (folder / "build").mkdir()
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    code = device_code(folder / "src/matvec.hip", folder.parent / "code.hsaco", f"-I{folder}/include")
    return folder, code


def located(store: Store, tree: tuple[Path, bytes], **options: Any) -> tuple[Digest, Source]:
    """The source of a kernel of such a tree."""
    folder, code = tree
    return run_locate(store, publish(store, code, ADD_ROWS), Options((folder,), **options))
