"""What people really write into settings: line breaks, marks of editors, sections as values."""

from __future__ import annotations

import pytest

from worker.configuration import FILE_BYTES_MAX, load
from worker.core.errors import ConfigError
from worker.sqliteopen import settings_of


def refusal(env: dict[str, str] | None = None, *, file: object = None) -> str:
    """What is said of settings that are refused."""
    with pytest.raises(ConfigError) as caught:
        load(env or {}, file=file)
    return str(caught.value)


def test_blanks_and_line_breaks_at_the_ends_are_taken_off():
    """Secrets come from files, and files end with a line break."""
    settings = load(
        {
            "LOOPWORKER_API_KEY": " sk-x\n",
            "LOOPWORKER_HTTP_TOKEN": "token-of-the-api\n",
            "LOOPWORKER_MODEL": "m\n",
            "LOOPWORKER_MODEL_URL": " http://h/v1\n",
            "LOOPWORKER_QUEUE_URL": "sqlite:///x.db ",
        }
    ).settings

    assert settings.api_key.get_secret_value() == "sk-x"
    assert settings.http_token.get_secret_value() == "token-of-the-api"
    assert (settings.model, settings.model_url) == ("m", "http://h/v1")
    assert settings.queue_url == "sqlite:///x.db"


@pytest.mark.parametrize("key", ["a\nb", "钥匙-very-secret", "\x01x", "two words"])
@pytest.mark.parametrize("name", ["API_KEY", "HTTP_TOKEN", "FALLBACKS__SPARE__API_KEY"])
def test_key_that_no_header_can_carry_is_refused(name, key):
    """At the start, by its name and without its value; not at every call."""
    said = refusal({f"LOOPWORKER_{name}": key})

    assert said.startswith(f"LOOPWORKER_{name}: must be printable ASCII characters")
    assert key not in said


@pytest.mark.parametrize("name", ["MODEL", "MODEL_URL", "QUEUE_URL", "QUEUE__NAME", "STORE_URL"])
@pytest.mark.parametrize("value", [" ", "a\nb", "a\x1b[31mb", "a\u202eb"])
def test_name_that_nobody_could_see_is_refused(name, value):
    """Blanks alone, and characters that hide within."""
    said = refusal({f"LOOPWORKER_{name}": value})

    assert said.startswith(f"LOOPWORKER_{name}: must be one line of visible characters")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queue = 5", "LOOPWORKER_QUEUE (file {file}): is a section; write [SECTION]"),
        ("fallbacks = 5", "LOOPWORKER_FALLBACKS (file {file}): is a group of sections"),
        ("model = 5", "LOOPWORKER_MODEL (file {file}): must be a text, got 5"),
        ("x = " + "[" * 5000, "{file}: nested too deeply"),
        ("x" + ".x" * 5000 + " = 1", "LOOPWORKER_X (file {file}): no such setting"),
        ("#" * (FILE_BYTES_MAX + 1), "{file}: more than 1048576 bytes"),
    ],
    ids=lambda value: value[:20],
)
def test_file_of_another_form_is_refused_in_plain_words(tmp_path, text, said):
    """No word of the library that reads it; and no file is read without an end."""
    file = tmp_path / "w.toml"
    file.write_text(text)

    assert refusal(file=file).startswith(said.format(file=file))


def test_section_that_the_file_gives_a_value_is_named(tmp_path):
    """Also where a variable wants to write into it."""
    file = tmp_path / "w.toml"
    file.write_text('queue = "fast"')

    said = refusal({"LOOPWORKER_QUEUE__NAME": "a"}, file=file)

    assert said == (
        f"LOOPWORKER_QUEUE (file {file}): is a section; write [queue] in the file, its settings below"
    )


@pytest.mark.parametrize(
    "text",
    ['http_token = ["hidden"]', "api_key = {a = 'hidden'}", "[fallbacks.a]\napi_key=['hidden']"],
)
def test_secret_of_a_wrong_form_is_not_shown(tmp_path, text):
    """A list in place of a text may still hold the secret."""
    file = tmp_path / "w.toml"
    file.write_text(text)

    assert "hidden" not in refusal(file=file)


def test_password_of_a_wrong_url_is_not_shown():
    """The rest of it is."""
    said = refusal({"LOOPWORKER_MODEL_URL": "ftp://me:hidden@host/v1"})

    assert "hidden" not in said
    assert "'ftp://host/v1' is not an http(s) URL" in said


@pytest.mark.parametrize("end", ["/chat/completions", "/chat/completions/"])
def test_whole_address_in_place_of_the_base_url_is_refused(end):
    """It would be asked for twice; every call would be answered with 404."""
    said = refusal({"LOOPWORKER_MODEL_URL": f"http://h/v1{end}"})

    assert said.startswith("LOOPWORKER_MODEL_URL: leave /chat/completions out")


def test_mark_at_the_beginning_of_a_file_is_read_over(tmp_path):
    """Some editors write one; it is no part of the first name."""
    file = tmp_path / "w.toml"
    file.write_bytes(b"\xef\xbb\xbfconcurrency = 5\n")

    assert load({}, file=file).settings.concurrency == 5


def test_empty_name_of_the_file_means_none(tmp_path, monkeypatch):
    """As with every other variable."""
    monkeypatch.chdir(tmp_path)

    assert load({"LOOPWORKER_CONFIG": ""}).settings.concurrency == 16


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///a%00b"])
def test_sqlite_url_that_names_no_file_is_refused(url):
    """A file called `:memory:` is what nobody meant."""
    with pytest.raises(ConfigError, match="names no file; a queue in memory is memory://"):
        settings_of(url)
