"""Places of records: paths stay unchanged, addresses are recognized and contain no secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.errors import SpecError
from autosync.spec.address import Address, absolute, place_of


@pytest.mark.parametrize("text", ["data", "~/data", "../x/y", "/abs/records", "C:data", "s3", "odd:/name", "a b", "."])
def test_a_text_without_a_scheme_is_a_path(text: str) -> None:
    assert place_of(text) == Path(text)


def test_a_file_address_is_the_path_that_it_names() -> None:
    assert place_of("file:///var/my%20data") == Path("/var/my data")
    with pytest.raises(SpecError, match=r"names a folder of this machine, such as file:///data, not 'file://host/x'"):
        place_of("file://host/x")


def test_a_file_in_an_address_keeps_its_options_and_leads_back() -> None:
    folder = place_of("s3://bucket/a/b/?region=eu-1")
    assert isinstance(folder, Address)
    file = folder / "x.parquet"
    assert str(file) == "s3://bucket/a/b/x.parquet?region=eu-1"
    assert (file.name, file.suffix, file.scheme, file.parent) == ("x.parquet", ".parquet", "s3", folder)
    assert place_of(str(file)) == file
    assert absolute(file) == file


@pytest.mark.parametrize("text", ["s3://", "s3:///x", "gs://bucket/x#y", "s3://[broken"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"^An address of records is SCHEME://HOST/PATH"):
        place_of(text)


@pytest.mark.parametrize("text", ["s3://id:hidden@bucket/x", "abfs://c@host/x?client_secret=hidden"])
def test_secrets_in_an_address_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(SpecError, match=r"holds no secrets; give those as the tools of its provider read them") as told:
        place_of(text)
    assert "hidden" not in str(told.value)
