"""What a sequential group shares outlives its worker, and is seen by nobody."""

from __future__ import annotations

SECRET = "door-key-7f3a9c"  # as in effects.py


async def test_killed_run_goes_on_with_the_state_of_its_group(site):
    """The second worker's call sees what the first worker's calls have left; other runs do not."""
    first = site.start()
    await site.submit("t", "enter a, enter b, hold go, enter c")
    await site.effect("hold go")
    first.kill()
    site.ask_for("go")
    second = site.start(admin=True)
    result = await site.result("t", within=15)
    await site.submit("new", "enter d")
    await site.result("new", within=10)
    watched = await site.run("watch", "t", "--json")
    page = second.ask("/metrics")[1]
    await second.stop()

    assert (result.status, result.answer) == ("completed", "done: t")
    assert site.effects("enter") == ["enter a", "enter a-b", "enter a-b-c", "enter d"]
    assert set(site.keys("enter")) == {"-"}
    logs = [process.log.read_text() for process in site.processes]
    assert not [text for text in (*logs, page, watched.stdout, watched.stderr) if SECRET in text]
    await site.empty()
