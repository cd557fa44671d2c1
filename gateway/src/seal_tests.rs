use super::*;

fn root(byte: u8) -> RootKey {
    RootKey::new([byte; 32])
}

fn keyring(keys: &GroupKeys) -> Keyring {
    let keyring = Keyring::default();
    keyring.set(Some(keys));
    keyring
}

#[test]
fn a_token_opens_for_its_scope_and_keys_only() {
    let sealer = Keyring::of_the_process().unwrap();
    for cursor in ["", "abc", "ü".repeat(50_000).as_str()] {
        let token = sealer.seal("team/a list", cursor).unwrap();
        assert_eq!(sealer.open("team/a list", &token).as_deref(), Ok(cursor));
        assert_eq!(sealer.open("team/b list", &token), Err(SealError::Invalid));
        assert_eq!(Keyring::of_the_process().unwrap().open("team/a list", &token), Err(SealError::Invalid));
    }
    for token in ["", "!", "AAAA", &"A".repeat(100)] {
        assert_eq!(sealer.open("s", token), Err(SealError::Invalid), "{token}");
    }
}

#[test]
fn gateways_of_a_group_open_each_others_cursors_during_a_rotation() {
    let first = GroupKeys::new(root(1), root(2), 0);
    let second = first.clone().rotate(root(3), 1);
    let third = second.clone().rotate(root(4), 2);
    let [old, new, newest] = [first, second, third].map(|keys| keyring(&keys));
    let [of_old, of_new, of_newest] = [&old, &new, &newest].map(|keyring| keyring.seal("s", "cursor").unwrap());
    // A gateway that has not seen the rotation yet, and one that has.
    assert_eq!(old.open("s", &of_new).as_deref(), Ok("cursor"));
    assert_eq!(new.open("s", &of_old).as_deref(), Ok("cursor"));
    assert_eq!(newest.open("s", &of_new).as_deref(), Ok("cursor"));
    assert_eq!(new.open("s", &of_newest).as_deref(), Ok("cursor"));
    // Two rotations later a key is gone.
    assert_eq!(newest.open("s", &of_old), Err(SealError::Invalid));
    // What changes with the rotation is the token, and the id in front of it.
    assert_ne!(of_old[..5], of_new[..5]);
}

#[test]
fn without_keys_nothing_is_sealed_opened_or_signed() {
    let keyring = keyring(&GroupKeys::new(root(1), root(2), 0));
    let token = keyring.seal("s", "cursor").unwrap();
    keyring.set(None);
    assert!(!keyring.is_known());
    assert_eq!(keyring.seal("s", "cursor"), Err(SealError::NoKeys));
    assert_eq!(keyring.open("s", &token), Err(SealError::NoKeys));
    assert_eq!(keyring.sign([b"answer".as_slice()]), None);
}

#[test]
fn a_signature_tells_nothing_without_its_key() {
    let (one, other) = (keyring(&GroupKeys::new(root(1), root(2), 0)), keyring(&GroupKeys::new(root(2), root(1), 0)));
    let sign = |keyring: &Keyring, answer: &str| keyring.sign([answer.as_bytes()]).unwrap();
    let signature = sign(&one, "1234");
    assert_eq!(sign(&one, "1234"), signature);
    assert_ne!(sign(&one, "1235").hmac, signature.hmac);
    let elsewhere = sign(&other, "1234");
    assert!(elsewhere.hmac != signature.hmac && elsewhere.key != signature.key);
    let plain = <sha2::Sha256 as sha2::Digest>::digest(b"1234");
    assert_ne!(signature.hmac, *plain);
}

#[test]
fn an_answer_in_pieces_has_the_signature_of_the_whole() {
    let keyring = keyring(&GroupKeys::new(root(1), root(2), 0));
    let whole = keyring.sign([b"an answer".as_slice()]);
    for pieces in [&["an", " ", "answer"][..], &["", "an answer", ""], &["an answe", "r"]] {
        assert_eq!(keyring.sign(pieces.iter().map(|piece| piece.as_bytes())), whole, "{pieces:?}");
    }
    assert_ne!(keyring.sign([b"an answe".as_slice()]), whole);
    // The documented key: HMAC-SHA256 of the group's key, with the purpose as the message.
    let hmac = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    let key = hmac(root(1).expose(), b"tamis.dev/audit");
    assert_eq!(whole.unwrap().hmac, hmac(key.as_ref(), b"an answer").as_ref());
}

#[test]
fn one_cursor_has_one_token_in_each_scope() {
    let sealer = Keyring::of_the_process().unwrap();
    let token = |scope, cursor| sealer.seal(scope, cursor).unwrap();
    assert_eq!(token("team/a list", "c"), token("team/a list", "c"));
    let others = [("team/a list", "d"), ("team/b list", "c"), ("team/a lis", "tc"), ("team/a list", "c\0")];
    // Nonces too: 16 bytes with the id in front.
    for (scope, cursor) in others {
        assert_ne!(token("team/a list", "c")[..21], token(scope, cursor)[..21], "{scope} {cursor:?}");
    }
    assert_ne!(token("s", "c"), Keyring::of_the_process().unwrap().seal("s", "c").unwrap());
}

#[test]
fn tokens_of_short_cursors_have_one_length() {
    let sealer = Keyring::of_the_process().unwrap();
    let lengths: Vec<_> = ["", "a", &"a".repeat(60)].iter().map(|c| sealer.seal("s", c).unwrap().len()).collect();
    assert_eq!(lengths, vec![lengths[0]; 3]);
    assert!(!sealer.seal("s", "secret").unwrap().contains("secret"));
}
