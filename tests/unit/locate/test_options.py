"""The options of a search for a source."""

import executables
import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.locate.options import check_macros


@pytest.mark.parametrize("define", ["A", "_a1=2", "A=", "A=B=C", "F(x,y)=x+y", "$a$", "\u00e9t\u00e9=1"])
def test_what_a_compiler_defines_is_a_macro(define):
    check_macros(["BEFORE=1", define])


@pytest.mark.parametrize("define", ["1x=2", "a-b", "a b=1", "-DA=1", "", "=1", "F(x=1", "+"])
def test_what_no_compiler_defines_is_refused_by_name(define):
    with pytest.raises(UsageError, match="-D"):
        check_macros(["BEFORE=1", define])


def test_kc_locate_names_the_word_that_is_no_macro(store):
    capture = executables.publish_capture(store)
    done = executables.run("kc-locate", "-D", "FINE", "-D", "1x=2", capture, store=store.root)
    assert done.returncode == 2
    assert done.stderr.startswith("kc-locate: error: -D 1x=2: '1x' is no name of a macro\n")
