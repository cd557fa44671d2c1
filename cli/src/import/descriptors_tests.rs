use super::*;

/// A message of some fields of bytes.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, value) in fields {
        record(&mut out, *number, value);
    }
    out
}

fn list(names: &[&str]) -> Vec<u8> {
    let services: Vec<Vec<u8>> = names.iter().map(|name| message(&[(1, name.as_bytes())])).collect();
    let services: Vec<(u8, &[u8])> = services.iter().map(|service| (1, &service[..])).collect();
    message(&[(1, b"host"), (6, &message(&services))])
}

/// A file of the package `p`.
fn file(name: &str, imports: &[&str], services: &[&str]) -> Vec<u8> {
    let mut out = message(&[(1, name.as_bytes()), (2, b"p")]);
    imports.iter().for_each(|import| record(&mut out, 3, import.as_bytes()));
    services.iter().for_each(|service| record(&mut out, 6, &message(&[(1, service.as_bytes())])));
    // An option that is an extension, which must arrive as it was sent.
    record(&mut out, 8, &[0xd8, 0x8e, 0x03, 0x07]);
    out
}

fn files(files: &[Vec<u8>]) -> Vec<u8> {
    let files: Vec<(u8, &[u8])> = files.iter().map(|file| (1, &file[..])).collect();
    message(&[(4, &message(&files))])
}

/// Asks a server until it has said everything.
fn ask(server: impl Fn(&Question) -> Vec<u8>) -> anyhow::Result<Reflected> {
    let mut reflected = Reflected::default();
    for _ in 0..2_000 {
        let questions = reflected.questions();
        if questions.is_empty() {
            return Ok(reflected);
        }
        let answers: Vec<Vec<u8>> = questions.iter().map(&server).collect();
        reflected.take(&questions, &answers)?;
    }
    bail!("it never ends")
}

fn refused(server: impl Fn(&Question) -> Vec<u8>) -> String {
    let set = ask(server).and_then(|reflected| reflected.descriptor_set());
    format!("{:#}", set.expect_err("is refused"))
}

#[test]
fn requests_are_those_of_reflection() {
    assert_eq!(Question::Services.message(), b"\x3a\x01*");
    assert_eq!(Question::Service("p.A".to_owned()).message(), b"\x22\x03p.A");
    assert_eq!(Question::File("a.proto".to_owned()).message(), b"\x1a\x07a.proto");
    let long = Question::File("a".repeat(300)).message();
    assert_eq!((&long[..3], long.len()), (&b"\x1a\xac\x02"[..], 303));
}

#[test]
fn imports_come_first_and_unlisted_services_are_dropped() {
    let reflected = ask(|question| match question {
        Question::Services => list(&["p.A", "p.B", "grpc.reflection.v1.ServerReflection"]),
        // Each with a file that it imports, and one that comes twice.
        Question::Service(name) if name == "p.A" => {
            files(&[file("a.proto", &["c.proto", "b.proto"], &["A", "Hidden"]), file("b.proto", &["c.proto"], &["B"])])
        }
        Question::Service(_) => files(&[file("b.proto", &["c.proto"], &["B"])]),
        Question::File(name) => files(&[file(name, &[], &["Hidden"])]),
    });
    let set = reflected.expect("is complete").descriptor_set().expect("is written");
    let expected = message(&[
        (1, &file("c.proto", &[], &[])),
        (1, &file("b.proto", &["c.proto"], &["B"])),
        (1, &file("a.proto", &["c.proto", "b.proto"], &["A"])),
    ]);
    assert_eq!(set, expected);
}

#[test]
fn a_server_that_lies_is_refused() {
    let one = |question: &Question, services: &[u8], of_service: &[u8], of_file: &[u8]| match question {
        Question::Services => services.to_vec(),
        Question::Service(_) => of_service.to_vec(),
        Question::File(_) => of_file.to_vec(),
    };
    let a = list(&["p.A"]);
    let imports_b = files(&[file("a.proto", &["b.proto"], &["A"])]);
    let error = message(&[(7, &message(&[(2, b"not\nfound")]))]);
    let many: Vec<String> = (0..=MAX_FILES).map(|number| format!("p.S{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let cases = [
        ("no services", list(&[]), vec![], vec![]),
        ("no services", list(&["grpc.reflection.v1alpha.ServerReflection"]), vec![], vec![]),
        ("more than 1000 services", list(&many), vec![], vec![]),
        ("an error: not found", error.clone(), vec![], vec![]),
        ("something else than was asked for", files(&[]), vec![], vec![]),
        ("cannot be read", b"\x32\xff".to_vec(), vec![], vec![]),
        ("the service p.A, and has no file", a.clone(), files(&[file("a.proto", &[], &["B"])]), vec![]),
        ("the file of p.A: the server answered with an error", a.clone(), error.clone(), vec![]),
        ("without a name", a.clone(), files(&[message(&[(2, b"p")])]), vec![]),
        ("not UTF-8", a.clone(), files(&[message(&[(1, b"\xff")])]), vec![]),
        ("a name of more than 1024 bytes", list(&["a".repeat(1_025).as_str()]), vec![], vec![]),
        ("another file in place of b.proto", a.clone(), imports_b.clone(), files(&[file("c.proto", &[], &[])])),
        ("the file of b.proto: the server answered with an error", a.clone(), imports_b.clone(), error),
        ("import each other", a, imports_b, files(&[file("b.proto", &["a.proto"], &[])])),
    ];
    for (expected, services, of_service, of_file) in cases {
        let said = refused(|question| one(question, &services, &of_service, &of_file));
        assert!(said.contains(expected) && !said.contains('\n'), "{expected}: {said}");
    }
    let own = refused(|question| one(question, &list(&["p.A"]), &files(&[file("a.proto", &["a.proto"], &["A"])]), &[]));
    assert!(own.contains("import each other: a.proto leads back to a.proto"), "{own}");
}

#[test]
fn imports_end() {
    // Each file imports the next one.
    let next = |name: &str| format!("{}.proto", name.trim_end_matches(".proto").parse::<u32>().unwrap_or_default() + 1);
    let said = refused(|question| match question {
        Question::Services => list(&["p.A"]),
        Question::Service(_) => files(&[file("0.proto", &["1.proto"], &["A"])]),
        Question::File(name) => files(&[file(name, &[&next(name)], &[])]),
    });
    assert!(said.contains("more than 1000 files"), "{said}");
    // One file imports too many.
    let imports: Vec<String> = (0..=MAX_FILES).map(|number| format!("{number}.proto")).collect();
    let imports: Vec<&str> = imports.iter().map(String::as_str).collect();
    let said = refused(|question| match question {
        Question::Services => list(&["p.A"]),
        Question::Service(_) => files(&[file("a.proto", &imports, &["A"])]),
        Question::File(_) => panic!("none is asked for"),
    });
    assert!(said.contains("more than 1000 files"), "{said}");
}
