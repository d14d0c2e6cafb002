"""Secrets leave text and values, ordinary words stay, and no text makes it slow."""

from __future__ import annotations

import io
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.configuration import load
from worker.observability import build_observability
from worker.telemetry.redact import MASK, Redactor, is_secret_name

# Built from parts, so that scanners of repositories find no secret here.
SECRETS = {
    "openai": "sk-" + "proj-Abc123Def456Ghi789",
    "openai_shown": "sk-" + "proj*************5678",
    "groq": "gsk_" + "abcdefghijklmnopqrstuvwx12345678",
    "xai": "xai-" + "abcdefghijklmnopqrstuvwx12345678",
    "nvidia": "nvapi-" + "abcdefgh-jklmnopqrstuvwx_2345678",
    "anthropic": "sk-" + "ant-api03-abcdefghij",
    "stripe": "sk_" + "live_abcdefgh12345678",
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws_session": "ASIA" + "IOSFODNN7EXAMPLE",
    "github": "ghp_" + "abcdefghijklmnopqrst123456",
    "github_fine": "github_pat_" + "11ABCDEFG0abcdefghij_xyz",
    "gitlab": "glpat-" + "abcdefghijklmnopqrst",
    "slack": "xoxb-" + "123456789012-abcdefghij",
    "google": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "huggingface": "hf_" + "abcdefghijklmnopqrstuvwx",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQ\n-----END RSA PRIVATE KEY-----",
}
# The text around, and the part of it that must leave.
SENTENCES = {
    'failed with {"accessToken": "abcd1234xyz"}': "abcd1234xyz",
    'settings {"dbPassword": "hunter2x", "port": 5432}': "hunter2x",
    "cookies sessionid=abc123def; csrftoken=zzz999": "abc123def",
    "sent csrftoken=zzz999zzz back": "zzz999zzz",
    "Authorization: Bearer abcdefgh123": "abcdefgh123",
    "bearer canary-secret-token": "canary-secret-token",
    "Authorization: Basic dXNlcjpwYXNzd29yZA==": "dXNlcjpwYXNzd29yZA==",
    "postgresql://user:p@ss@host/db": "p@ss",
    "redis://:hunter2@host:6379": "hunter2",
    "nats: nats://hunter2@host:4222 is away": "hunter2",
    "https://hunter2@host/v1": "hunter2",
    "GET https://host/path?a=1&key=hunter2&b=2": "hunter2",
    "https://host/?X-Amz-Signature=abcdef0123": "abcdef0123",
    "password=hunter2 and more": "hunter2",
    '{"password": "hunter two"}': "hunter two",
    '{\\"api_key\\": \\"hunter2\\"}': "hunter2",
    "api key: hunter2": "hunter2",
    "secret_key = hunter2": "hunter2",
    "access_token: hunter2": "hunter2",
    "Cookie: session=hunter2; other=hunter3": "hunter3",
    "密码是hunter2": "hunter2",
    "my password is: hunter2": "hunter2",
    "password：hunter2": "hunter2",
    "验证码：482913": "482913",
    "my token is in token=hunter2": "hunter2",
}
ORDINARY = [
    "What is the price of AAPL today?",
    "task-abcdefghij failed",
    "a risk-averse-investors fund",
    "Basic information about the basics",
    "prompt_tokens: 12, completion_tokens=5",
    "Asia and the keyboard of a monkey",
    "几点了？订单 A1234567890123 到哪了",
    "https://example.com/path?page=2#part",
    "the signature dish",
    "2026-12-02T10:00:00Z 12:30 3.14",
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
@pytest.mark.parametrize("around", ["{}", "see {} here", "a\n{}\nb", "({})", "值：{}。"])
def test_a_secret_by_shape_leaves_text_and_lines(secret, around):
    """Found by shape alone, wherever it stands; the line check sees it in JSON, too."""
    text, redactor = around.format(secret), Redactor()

    assert redactor.text(text) == around.format(MASK)
    assert redactor.line_is_suspect(json.dumps({"a": text}, ensure_ascii=False).encode())


@pytest.mark.parametrize(("text", "secret"), SENTENCES.items())
def test_a_secret_by_its_place_leaves(text, secret):
    """Found by what stands before it; the words around stay."""
    redactor = Redactor()

    assert secret not in redactor.text(text)
    assert MASK in redactor.text(text)
    assert redactor.line_is_suspect(json.dumps({"a": text}, ensure_ascii=False).encode())


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text):
    """Nothing is masked that only looks a little like a secret."""
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apiKey",
        "X-Api-Key",
        "token",
        "accessToken",
        "Authorization",
        "password",
        "db_passwd",
        "client_secret",
        "Set-Cookie",
        "private_key",
        "密码",
        "signature",
        "tokens",
    ],
)
def test_a_secret_by_name_leaves(name):
    """The value under such a name is masked, in any spelling and depth; the check sees the name."""
    value = {"outer": [{name: "harmless-looking"}]}
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    assert Redactor().value(value) == {"outer": [{name: MASK}]}
    assert Redactor().line_is_suspect(line)


def test_counts_of_tokens_are_no_secrets():
    """Usage is shown: a number under a name that ends in tokens."""
    usage = {"prompt_tokens": 5, "max_tokens": 7, "token": None, "model": "m"}

    assert Redactor().value(usage) == usage
    assert not Redactor().line_is_suspect(b'{"prompt_tokens":5,"completion_tokens":7}')


@given(
    st.text(min_size=8, max_size=40).filter(lambda text: text.strip() == text),
    st.text(max_size=60),
    st.text(max_size=60),
)
def test_a_configured_secret_leaves_whatever_it_looks_like(secret, before, after):
    """A literal is removed exactly, from text, nested values and lines."""
    secret = secret.encode("utf-8", "replace").decode()
    redactor = Redactor([secret])
    text = f"{before}{secret}{after}"

    if secret not in MASK:
        assert secret not in redactor.text(text, limit=10_000)
        assert secret not in redactor.value([{"a": text}])[0]["a"]
    line = json.dumps({"a": text.encode("utf-8", "replace").decode()}, ensure_ascii=False)
    assert redactor.line_is_suspect(line.encode())


def test_a_literal_is_found_in_its_url_form():
    """A secret that was put into a URL is quoted there."""
    assert "p%40ss%2Fword" not in Redactor(["p@ss/word"]).text("see ?x=p%40ss%2Fword")


@pytest.mark.parametrize("word", ["ollama", "EMPTY", "x", ""])
def test_a_placeholder_blackens_nothing(word):
    """What local servers want in place of a key is no secret."""
    assert Redactor([word]).text(f"the {word} server") == f"the {word} server"


def test_persons_leave_under_the_default_policy():
    """Identity and phone numbers and cards go; numbers of orders stay."""
    text = "13812345678, +86 139-1234-5678, 11010519491231002X, 4111 1111 1111 1111, 123456789012"
    shown = Redactor().content(text)

    assert shown == "[phone], [phone], [id number], [card], 123456789012"


def test_a_secret_across_the_cut_leaves_no_half():
    """The text is masked before it is cut."""
    text = "x" * 500 + " " + SECRETS["openai"]
    shown = Redactor().content(text)

    assert len(shown) <= 512
    assert "sk-" not in shown


@given(st.recursive(st.none() | st.text() | st.floats() | st.integers(), st.lists, max_leaves=20))
def test_any_value_becomes_plain(value):
    """Whatever goes in, JSON comes out."""
    json.dumps(Redactor().value({"a": value, 1: value})).encode()


@pytest.mark.parametrize(
    "part",
    [
        "Bearer ",
        "-----BEGIN PRIVATE KEY-----",
        "://",
        "token=",
        "eyJ",
        "sk-",
        "cookie=",
        "eyJa.",
        "password: ",
        "a:b@",
        "authorization: ",
        "AKIA",
        "密码是",
        "basic a",
        "secret_",
        "\\",
        '"',
    ],
)
@pytest.mark.timing
def test_no_text_makes_it_slow(part):
    """Four times the text takes nowhere near sixteen times as long."""
    redactor = Redactor()

    def seconds(size):
        text = (part * size)[:size]
        best = 10.0
        for _ in range(3):
            began = time.perf_counter()
            redactor._without_secrets(text)
            best = min(best, time.perf_counter() - began)
        return best

    assert seconds(80_000) < 10 * seconds(20_000) + 0.02


def test_names_that_are_close_are_told_apart():
    """A tokenizer is none, a tokenised thing is none, a key of a map is none."""
    assert not any(map(is_secret_name, ["tokenizer", "key", "author", "design", "passenger"]))


def test_every_key_of_the_settings_is_known_by_heart():
    """Also one that looks like nothing: of the first model, of a stand-in, of the API."""
    settings = load(
        {
            "LOOPWORKER_API_KEY": "plain-words-1",
            "LOOPWORKER_HTTP_TOKEN": "plain-words-2",
            "LOOPWORKER_MODEL_URL": "http://host/v1",
            "LOOPWORKER_MODEL_FALLBACKS": "mini",
            "LOOPWORKER_FALLBACKS__MINI__API_KEY": "plain-words-3",
        }
    ).settings
    seen = build_observability(settings, worker_id="w", stream=io.StringIO())

    assert "plain" not in seen.redactor.text("plain-words-1 plain-words-2 plain-words-3")
