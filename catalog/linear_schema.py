"""Writes Linear's GraphQL schema, as far as types show it, from the declarations in the npm package @linear/sdk.

The package has no schema. Its declarations are generated from the schema, with each type, field, argument and nullability, and with
descriptions; default values and descriptions of arguments are not in them. Usage:

    npm pack @linear/sdk@98.0.0 && tar xzf linear-sdk-98.0.0.tgz
    python3 linear_schema.py package/dist/index-*.d.mts > linear.schema.graphql
"""
import re
import sys

SCALARS = {"ID", "String", "Boolean", "Int", "Float"}
ROOTS = ["Query", "Mutation"]


def parse(lines):
    """Yields (kind, name, interfaces, description, body lines) of each declaration of a type or an enum."""
    description, body, head = [], [], None
    for line in lines:
        if head is None:
            match = re.match(r"(?:declare )?(type|enum) (\w+)(?: =)? (?:(.*) & )?\{$", line)
            if match:
                head, body = match, []
            elif line.startswith("/**") or line.startswith(" *"):
                description = [line] if line.startswith("/**") else description + [line]
            else:
                description = []
        elif line.rstrip() in ("};", "}"):
            yield head[1], head[2], (head[3] or "").split(" & "), comment(description), body
            head, description = None, []
        else:
            body.append(line)


def unions(lines, objects):
    """Yields each type that is one of several objects, as GraphQL writes it."""
    for line in lines:
        match = re.match(r"type (\w+) = (\w+(?: \| \w+)*);$", line)
        if match and set(match[2].split(" | ")) <= objects:
            yield f"union {match[1]} = {match[2]}\n"


def comment(lines):
    text = [re.sub(r"^\s*/?\*+ ?|\s*\*/\s*$", "", line).strip() for line in lines]
    return [line for line in text if line]


def kind(text):
    """`Maybe<Array<Scalars["String"]>>` as GraphQL's own type."""
    text = text.strip()
    match = re.fullmatch(r"(?:Input)?Maybe<(.*)>", text)
    if match:
        return kind(match[1])[:-1]
    match = re.fullmatch(r"Array<(.*)>", text)
    if match:
        return f"[{kind(match[1])}]!"
    match = re.fullmatch(r'Scalars\["(\w+)"\]', text) or re.fullmatch(r"([A-Z]\w*)", text)
    return f"{match[1]}!"


def members(body):
    description = []
    for line in body:
        field = re.match(r"  (\w+)\??: (.*);$", line)
        if field and field[1] != "__typename":
            yield field[1], kind(field[2]), comment(description)
            description = []
        elif field:
            description = []
        else:
            description.append(line)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def described(lines, indent, out):
    text = " ".join(line for line in lines if not line.startswith("@"))
    if text:
        out.append(f"{indent}{quoted(text)}")
    return next((line for line in lines if line.startswith("@deprecated")), None)


def main():
    with open(sys.argv[1], encoding="utf-8") as source:
        lines = source.read().splitlines()
    declared = {name: (sort, interfaces, text, body) for sort, name, interfaces, text, body in parse(lines)
                if not re.search(r"(Query|Mutation)Variables$", name)}
    scalars, out = set(), []
    objects = {name for name, (sort, _, _, body) in declared.items() if any("__typename?" in line for line in body[:1])}
    interfaces = {one for name in objects for one in declared[name][1] if one}
    for name, (sort, implemented, text, body) in declared.items():
        is_object = name in objects or name in ROOTS
        if sort == "enum":
            described(text, "", out)
            out.append(f"enum {name} {{")
            about = []
            for line in body:
                value = re.match(r'  \w+ = "(\w+)",?$', line)
                if value:
                    described(comment(about), "  ", out)
                    out.append(f"  {value[1]}")
                about = [] if value else about + [line]
            out.append("}\n")
            continue
        try:
            fields = list(members(body))
        except TypeError:
            continue  # Not a type of the schema.
        is_input = any("InputMaybe<" in line for line in body) and not is_object or re.search("(Input|Filter|Comparator|Sort)$", name)
        if name.endswith("Args") and not is_object or not fields or not (is_object or is_input or name in interfaces):
            continue
        described(text, "", out)
        word = "input" if is_input and not is_object else "type" if is_object else "interface"
        names = [one for one in implemented if one]
        out.append(f"{word} {name}{' implements ' + ' & '.join(names) if names and word == 'type' else ''} {{")
        for field, type_, about in fields:
            deprecated = described(about, "  ", out)
            scalars.add(type_.strip("[]!"))
            arguments = declared.get(f"{name}{field[0].upper()}{field[1:]}Args")
            listed = [f"{argument}: {of}" for argument, of, _ in members(arguments[3])] if arguments and word != "input" else []
            scalars.update(of.split(": ")[1].strip("[]!") for of in listed)
            reason = f" @deprecated(reason: {quoted(deprecated[12:])})" if deprecated and word == "type" else ""
            out.append(f"  {field}{'(' + ', '.join(listed) + ')' if listed else ''}: {type_}{reason}")
        out.append("}\n")
    out.extend(unions(lines, objects))
    text = "\n".join(out)
    known = set(re.findall(r"^(?:type|input|interface|enum|union) (\w+)", text, re.M))
    print("".join(f"scalar {name}\n" for name in sorted(scalars - known - SCALARS)))
    print(text)


main()
