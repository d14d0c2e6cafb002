"""Settings: where they come from, and what is said when one is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.configuration import effective, load, masked, named
from worker.core.errors import ConfigError


def shown(loaded, name):
    """One effective setting."""
    return next(s for s in effective(loaded) if s.name == name)


def test_the_environment_wins_over_the_file(tmp_path):
    """Each value tells where it came from."""
    file = tmp_path / "w.toml"
    file.write_text('concurrency = 3\nmodel = "m"\n[queue]\nlease_seconds = "45s"\n')

    loaded = load({"LOOPWORKER_CONCURRENCY": "5"}, file=file)

    assert shown(loaded, "LOOPWORKER_CONCURRENCY").value == 5
    assert "environment" in shown(loaded, "LOOPWORKER_CONCURRENCY").source
    assert shown(loaded, "LOOPWORKER_QUEUE__LEASE_SECONDS").value == 45
    assert "w.toml" in shown(loaded, "LOOPWORKER_QUEUE__LEASE_SECONDS").source
    assert shown(loaded, "LOOPWORKER_MAX_STEPS").source == "default"


def test_the_usual_names_of_the_vendor_serve_as_fallback():
    """OPENAI_BASE_URL and OPENAI_API_KEY count unless our own are set."""
    env = {"OPENAI_BASE_URL": "http://a/v1", "OPENAI_API_KEY": "k", "LOOPWORKER_API_KEY": "own"}

    settings = load(env).settings

    assert settings.model_url == "http://a/v1"
    assert settings.api_key.get_secret_value() == "own"


@pytest.mark.parametrize(
    ("url", "shown_as"),
    [
        ("nats://hunter2@host:4222", "nats://********@host:4222"),
        ("nats://u:hunter2@host", "nats://u:********@host"),
        ("redis://name@host/0", "redis://name:********@host/0"),
        ("https://hunter2@host/v1?x=1", "https://********@host/v1?x=1"),
    ],
)
def test_the_secret_of_an_address_is_masked(url, shown_as):
    """The password; where there is none, what NATS and HTTP take for a token."""
    assert masked(url) == shown_as


def test_an_account_and_a_key_for_one_model_are_refused():
    """A request can carry one of them; the client would raise at each."""
    environ = {"LOOPWORKER_MODEL_URL": "http://u:hunter2@host/v1"}

    assert load(environ).settings.model_url
    with pytest.raises(ConfigError, match="LOOPWORKER_MODEL_URL: has an account") as refused:
        load(environ | {"LOOPWORKER_API_KEY": "k"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("end", ["/v1/chat/completions", "/v1[nothing]", "/v1[]", "/v1[error]"])
def test_the_secret_of_an_entry_of_the_chain_is_not_shown(end):
    """Whatever is wrong with the entry."""
    for entry in (f"m@https://u:hunter2@host{end}", f"m[@https://u:hunter2@host{end}"):
        with pytest.raises(ConfigError) as refused:
            load({"LOOPWORKER_MODEL_URL": "http://a/v1", "LOOPWORKER_MODEL_FALLBACKS": entry})
        assert "hunter2" not in str(refused.value)


def test_secrets_are_masked():
    """Neither keys nor passwords in URLs are shown."""
    loaded = load({"LOOPWORKER_API_KEY": "sk-hidden", "LOOPWORKER_QUEUE_URL": "redis://u:pw@h/0"})
    text = repr(list(effective(loaded)))

    assert "sk-hidden" not in text
    assert "pw@" not in text


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"LOOPWORKER_QUEU_URL": "x"}, ["LOOPWORKER_QUEU_URL", "LOOPWORKER_QUEUE_URL"]),
        (
            {"LOOPWORKER_CONCURRENCY": "many"},
            ["LOOPWORKER_CONCURRENCY: must be a whole number from 1 to 100000, got 'many'"],
        ),
        ({"LOOPWORKER_LOG_LEVEL": "loud"}, ["LOOPWORKER_LOG_LEVEL: must be one of debug, info"]),
        (
            {"LOOPWORKER_DEADLINE": "soon"},
            ["a time (90, 90s, 1.5m, 2h) above 0 and up to 604800 s"],
        ),
        ({"LOOPWORKER_MODEL_STREAM": "perhaps"}, ["must be true or false, got 'perhaps'"]),
        ({"LOOPWORKER_GUARDS__QUOTE__LIMIT": "0"}, ["must be a whole number from 1 to 10000"]),
        ({"LOOPWORKER_GUARDS__QUOTE__OPEN_SECONDS": "-1"}, ["above 0 and up to 3600 s, got '-1'"]),
        ({"LOOPWORKER_HTTP": "localhost"}, ["LOOPWORKER_HTTP", "127.0.0.1:8080, or off"]),
        ({"LOOPWORKER_ADMIN": "x:y"}, ["LOOPWORKER_ADMIN", "127.0.0.1:9464, or off"]),
        (
            {"LOOPWORKER_GUARDS__QUOTE__FAIL_MX": "2"},
            ["did you mean LOOPWORKER_GUARDS__QUOTE__FAIL_MAX?"],
        ),
        ({"LOOPWORKER_MAX_STEPS": "0"}, ["LOOPWORKER_MAX_STEPS", "1"]),
        ({"LOOPWORKER_QUEUE__LEASE_SECONDS": "nan"}, ["LOOPWORKER_QUEUE__LEASE_SECONDS"]),
        ({"LOOPWORKER_GUARD__FAIL_MAX": "2"}, ["LOOPWORKER_GUARD__FAIL_MAX", "5"]),
        ({"LOOPWORKER_GUARDS__QUOTE__COLOUR": "2"}, ["LOOPWORKER_GUARDS__QUOTE__COLOUR"]),
        ({"LOOPWORKER_WORKER__DRAIN_SECONDS": "40"}, ["DRAIN_SECONDS", "TERMINATION_GRACE"]),
        ({"LOOPWORKER_CONFIG": "/nowhere.toml"}, ["/nowhere.toml"]),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(env, words):
    """The process ends at once, and the message is enough to mend it."""
    with pytest.raises(ConfigError) as caught:
        load(env)

    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("concurency = 3\n", "w.toml): no such setting; did you mean LOOPWORKER_CONCURRENCY?"),
        ("[gaurd]\nlimit = 3\n", "w.toml): no such setting; did you mean LOOPWORKER_GUARD?"),
        (
            "[guard]\nlimits = 3\n",
            "w.toml): no such setting; did you mean LOOPWORKER_GUARD__LIMIT?",
        ),
        ("queue = 3\n", "LOOPWORKER_QUEUE"),
        ("guards = 3\n", "LOOPWORKER_GUARDS"),
        ("concurrency = true\n", "LOOPWORKER_CONCURRENCY (file"),
        ("[queue]\nlease_seconds = true\n", "from 0.5 to 3600 s, got True"),
        ("[guards.quote]\nlimit = true\n", "LOOPWORKER_GUARDS__QUOTE__LIMIT"),
    ],
)
def test_a_wrong_line_of_the_file_is_named(tmp_path, text, said):
    """A typing error in the file is told with the file and the name that was meant."""
    file = tmp_path / "w.toml"
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load({}, file=file)

    assert said in str(caught.value)


def test_a_file_that_is_none_is_not_passed_over(tmp_path, monkeypatch):
    """A folder, as a container makes it of a missing file, or a link to nothing: told."""
    monkeypatch.chdir(tmp_path)
    assert load({}).sources == {}

    Path("loopworker.toml").mkdir()
    with pytest.raises(ConfigError, match=r"loopworker\.toml: cannot be read: Is a directory"):
        load({})
    Path("loopworker.toml").rmdir()
    Path("loopworker.toml").symlink_to("nowhere.toml")
    with pytest.raises(ConfigError, match=r"loopworker\.toml: cannot be read: No such file"):
        load({})


def test_hand_off_rules_are_tables_or_variables(tmp_path):
    """A rule has a name; the environment wins field by field, and lists are commas there."""
    file = tmp_path / "w.toml"
    file.write_text(
        '[handoff.legal]\ntext = "建议咨询律师"\non = "answer"\n\n'
        '[handoff.risk]\npattern = "level [45]"\ntools = ["crm"]\n'
    )
    loaded = load(
        {"LOOPWORKER_HANDOFF__RISK__TOOLS": "crm, kyc", "LOOPWORKER_HANDOFF__LEGAL__ENABLED": "0"},
        file=file,
    )
    rules = loaded.settings.handoff

    assert (rules["legal"].text, rules["legal"].on, rules["legal"].enabled) == (
        *("建议咨询律师", "answer", False),
    )
    assert (rules["risk"].pattern, rules["risk"].tools) == ("level [45]", ("crm", "kyc"))
    shown = {each.name: (each.value, each.source) for each in effective(loaded)}
    assert shown["LOOPWORKER_HANDOFF__LEGAL__TEXT"] == ("建议咨询律师", f"file {file}")


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"LOOPWORKER_HANDOFF__R__ON": "never"}, "HANDOFF__R__ON: must be one of both, answer"),
        ({"LOOPWORKER_HANDOFF__R__TEXTS": "x"}, "did you mean LOOPWORKER_HANDOFF__R__TEXT?"),
        ({"LOOPWORKER_HANDOFF__R__TEXT": "x" * 1001}, "LOOPWORKER_HANDOFF__R__TEXT"),
    ],
)
def test_a_wrong_hand_off_rule_is_named(env, said):
    """Its variable, and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        load(env)

    assert said in str(caught.value)


def test_an_adapter_error_gets_the_full_name():
    """Adapters know no prefix; what a person reads is the name of the variable, once."""
    with pytest.raises(ConfigError) as caught, named("STORE_URL"):
        raise ConfigError("STORE_URL: is a folder")

    assert str(caught.value) == "LOOPWORKER_STORE_URL: is a folder"


def test_names_that_platforms_add_are_left_alone():
    """A Kubernetes service called loopworker sets LOOPWORKER_PORT; that is no typing error."""
    loaded = load({"LOOPWORKER_PORT": "tcp://10.0.0.1:80", "LOOPWORKER_SERVICE_HOST": "10.0.0.1"})

    assert loaded.ignored == ("LOOPWORKER_PORT", "LOOPWORKER_SERVICE_HOST")


def test_an_empty_variable_means_not_set():
    """Compose files cannot leave a variable out."""
    assert load({"LOOPWORKER_MODEL_URL": "", "LOOPWORKER_API_KEY": ""}).settings.model_url is None


def test_an_empty_variable_of_an_exception_means_not_set():
    """Also where sections have names of their own; what has to have a value says so."""
    settings = load(
        {"LOOPWORKER_GUARDS__QUOTE__LIMIT": "", "LOOPWORKER_HANDOFF__X__ON": ""}
    ).settings

    assert settings.guards["quote"].limit is settings.handoff["x"].on is None
    with pytest.raises(ConfigError, match="LOOPWORKER_CONCURRENCY"):
        load({"LOOPWORKER_CONCURRENCY": ""})


def test_a_list_is_one_text_with_commas_or_a_list(tmp_path):
    """A variable has no lists, and a file may say it either way."""
    file = tmp_path / "w.toml"
    file.write_text('[loop]\npollers = ["a", "b"]\n[outbound]\nallow_hosts = "x, y"\n')

    settings = load({"LOOPWORKER_OUTBOUND__TRACE_HOSTS": " p,, q "}, file=file).settings

    assert settings.loop.pollers == ("a", "b")
    assert settings.outbound.allow_hosts == ("x", "y")
    assert settings.outbound.trace_hosts == ("p", "q")
    assert load({"LOOPWORKER_OUTBOUND__TRACE_HOSTS": ""}).settings.outbound.trace_hosts == ()


def test_a_secret_does_not_appear_in_an_error():
    """An error about a secret names it and does not show it."""
    with pytest.raises(ConfigError) as caught:
        load(
            {"LOOPWORKER_MODEL": "", "LOOPWORKER_HTTP_TOKEN": "tok", "LOOPWORKER_CONCURRENCY": "x"}
        )

    assert "tok" not in str(caught.value)
