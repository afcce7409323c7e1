"""The routes for persons."""

from tests.web.conftest import AUTH, Client


async def test_people_are_listed_found_and_changed(client: Client) -> None:
    status, listed = await client.call("GET", "/api/v1/people")
    assert status == 200
    assert '"id": "web:owner:owner"' in str(listed).replace("'", '"')
    assert await client.call("GET", "/api/v1/people?who=nobody") == (200, {"items": []})
    body = {"who": "owner", "fields": {"currency": "krw"}}
    status, _ = await client.call("POST", "/api/v1/people", json=body)
    assert (status, client.gateway.persons.person.currency) == (200, "KRW")


async def test_a_change_that_does_not_fit_is_refused_with_what_to_do(client: Client) -> None:
    async def refusal(status: int, **body: object) -> str:
        return await client.refused("POST", "/api/v1/people", status, json=body)

    assert "did you mean Asia/Seoul" in await refusal(400, who="owner", fields={"timezone": "Seoul"})
    assert "no person" in await refusal(404, who="eve", fields={"language": "ko"})
    assert "roles" in await refusal(400, who="owner", fields={"roles": "owner"})
    assert "fields" in await refusal(400, who="owner", fields="ko")
    headers = {**AUTH, "Content-Type": "text/plain"}
    assert "send JSON" in await client.refused("POST", "/api/v1/people", 415, data=b"{}", headers=headers)
