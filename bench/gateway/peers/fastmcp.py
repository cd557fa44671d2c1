"""FastMCP with the upstream's API as tools. Arguments: the upstream's port, the port to listen on, the size in kB."""

import sys

import httpx2
from fastmcp import FastMCP

upstream, port, kb = sys.argv[1:]
items = {"type": "array", "items": {"type": "object"}}
answer = {"description": "items", "content": {"application/json": {"schema": items}}}
specification = {
    "openapi": "3.1.0",
    "info": {"title": "bench", "version": "1"},
    "paths": {f"/items/{kb}": {"get": {"operationId": f"items_{kb}", "responses": {"200": answer}}}},
}
client = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{upstream}")
server = FastMCP.from_openapi(openapi_spec=specification, client=client, name="bench")
server.run(
    transport="http",
    host="127.0.0.1",
    port=int(port),
    path="/mcp",
    stateless_http=True,
    json_response=True,
    show_banner=False,
    log_level="warning",
)
