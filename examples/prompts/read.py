"""Lists the prompts and resources at an address, gets a prompt and reads resources: read.py URL [URI..]"""

import asyncio
import sys

from mcp import Client


async def main(url: str, uris: list[str]) -> None:
    async with Client(url) as client:
        for prompt in (await client.list_prompts()).prompts:
            arguments = [argument.name + ("" if argument.required else "?") for argument in prompt.arguments or []]
            print("prompt", prompt.name, *arguments)
        for resource in (await client.list_resources()).resources:
            print("resource", resource.uri, resource.mime_type)
        for template in (await client.list_resource_templates()).resource_templates:
            print("template", template.uri_template)
        result = await client.get_prompt("answer", {"question": "How do I book a train?"})
        for message in result.messages:
            print(message.role + ":", message.content.text)
        for uri in uris:
            try:
                print((await client.read_resource(uri)).contents[0].text, end="")
            except Exception as error:
                print(f"{uri}: {error}")


asyncio.run(main(sys.argv[1], sys.argv[2:]))
