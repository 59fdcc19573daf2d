import pytest
from manifest_examples import capture as example_capture
from manifest_examples import code_object

from kerncap_stages.compilers import ptx
from kerncap_stages.compilers.captured_code import CapturedCode
from kerncap_stages.compilers.consulted import Consulted
from kerncap_stages.compilers.ptx import find_ptx
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.kernel import CodeObjectFormat

TEXT = ".version 9.0\n.target {}\n.address_size 64\n.visible .entry {}(\n\t.param .u64 a\n)\n{{ ret; }}\n"


@pytest.fixture(autouse=True)
def no_toolkit(monkeypatch):
    monkeypatch.setattr(ptx, "find_cuda_tool", lambda _name: None)


def look(root, symbol="_Z5plainPf", isa="sm_90", code=b"", handed=()):
    base = example_capture(Backend.CUDA)
    kernel = base.kernel.model_copy(
        update={
            "mangled_name": symbol,
            "code_object": code_object(CodeObjectFormat.CUBIN).model_copy(update={"isa": isa}),
        }
    )
    capture = base.model_copy(update={"kernel": kernel})
    return find_ptx(capture, CapturedCode(code, handed), (root,), Consulted())


def test_an_entry_of_the_kernels_name_is_found(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below/k.ptx").write_text(TEXT.format("sm_90", "_Z5plainPf"))
    (tmp_path / "below/other.ptx").write_text(TEXT.format("sm_90", "_Z5plainPfx"))
    found = look(tmp_path).found
    assert found is not None
    assert (found.path, found.line) == (tmp_path / "below/k.ptx", 4)


def test_a_file_may_be_named_itself(tmp_path):
    (tmp_path / "k.ptx").write_text(TEXT.format("sm_90", "_Z5plainPf"))
    assert look(tmp_path / "k.ptx").found is not None


def test_the_name_of_the_unit_does_not_matter(tmp_path):
    (tmp_path / "k.ptx").write_text(TEXT.format("sm_90", "_ZN36_GLOBAL__N__ad82676b_4_a_cu_acc5a52f4anonEPf"))
    assert look(tmp_path, "_ZN36_GLOBAL__N__ca0462f3_4_a_cu_acc5a52f4anonEPf").found is not None
    assert look(tmp_path, "_ZN36_GLOBAL__N__ca0462f3_4_b_cu_acc5a52f4anonEPf").found is None


def test_ptx_for_a_newer_gpu_is_none(tmp_path):
    (tmp_path / "k.ptx").write_text(TEXT.format("sm_100", "_Z5plainPf"))
    assert look(tmp_path, isa="sm_90a").found is None
    assert look(tmp_path, isa="sm_103").found is not None


def test_several_that_cannot_be_told_apart_are_none(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.ptx").write_text(TEXT.format("sm_90", "_Z5plainPf") + f"// {name}\n")
    answer = look(tmp_path)
    assert answer.found is None
    assert "2 PTX files" in answer.problem


def test_the_same_text_twice_is_one(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.ptx").write_text(TEXT.format("sm_90", "_Z5plainPf"))
    assert look(tmp_path).found is not None


def test_it_says_that_programs_were_not_looked_into(tmp_path):
    assert "no cuobjdump" in look(tmp_path).problem


OWN = TEXT.format("sm_90", "_Z5plainPf").replace("\t", "")


@pytest.fixture
def line_information(monkeypatch):
    """A cubin made with -lineinfo: it repeats its PTX, without comments and indentation."""
    monkeypatch.setattr(ptx, "find_embedded_ptx", lambda code: OWN.encode() if code == b"cubin" else None)
    return b"cubin"


def test_of_several_the_one_that_line_information_repeats_is_taken(tmp_path, line_information):
    text = TEXT.format("sm_90", "_Z5plainPf")
    (tmp_path / "one.ptx").write_text(text.replace("ret;", "bar.sync 0; ret;"))
    (tmp_path / "two.ptx").write_text("// a comment\n" + text.replace("ret;", "/* here */ ret;"))
    found = look(tmp_path, code=line_information).found
    assert found is not None
    assert found.path == tmp_path / "two.ptx"


def test_where_no_file_says_the_same_line_information_itself_is_taken(tmp_path, line_information):
    for name in ("one", "two"):
        (tmp_path / f"{name}.ptx").write_text(TEXT.format("sm_90", "_Z5plainPf") + f".global .b8 {name};\n")
    found = look(tmp_path, code=line_information).found
    assert found is not None
    assert found.path.name == "program:line-information.ptx"
    assert found.text == OWN.encode()
    assert look(tmp_path, "_Z5otherPf", code=line_information).found is None


HANDED = TEXT.format("sm_70", "_Z5plainPf").encode()


def test_what_the_program_handed_to_its_driver_goes_before_files(tmp_path):
    (tmp_path / "k.ptx").write_text(TEXT.format("sm_90", "_Z5plainPf"))
    helper = b".version 9.0\n.target sm_70\n.address_size 64\n.visible .func help() { ret; }\n"
    found = look(tmp_path, handed=(helper, HANDED)).found
    assert found is not None
    assert (found.text, found.line, found.path.name) == (HANDED, 4, "program:handed-to-the-driver.ptx")
    assert look(tmp_path, "_Z5otherPf", handed=(HANDED,)).found is None


@pytest.mark.parametrize(
    ("made", "note"),
    [
        (b"captured", ""),
        (b"other", ", but this ptxas gives instructions that differ from the captured ones"),
        (None, ", which ptxas does not assemble alone: it may need code that was linked to it"),
    ],
)
def test_it_is_said_whether_the_text_makes_the_captured_instructions(tmp_path, monkeypatch, made, note):
    monkeypatch.setattr(ptx, "find_kernel_code", lambda _code, _symbol: b"captured")
    monkeypatch.setattr(ptx, "_assemble", lambda _ptx, _isa, _symbol: made)
    assert look(tmp_path, handed=(HANDED,)).note == ""  # there is no ptxas to ask
    monkeypatch.setattr(ptx, "find_cuda_tool", lambda name: name)
    assert look(tmp_path, handed=(HANDED,)).note == note
