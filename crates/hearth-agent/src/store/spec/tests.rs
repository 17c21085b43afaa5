use super::*;
use crate::store::testing::{EIO, Scratch, fd, file};

#[test]
fn a_store_is_printed_as_it_is_named() {
    for text in [
        "posix",
        "model:servers=4,service_us=580,bandwidth_mb=110,stripe_kb=64",
        "fault:write:enospc@3;sync:eio@1",
    ] {
        assert_eq!(StoreSpec::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(
        StoreSpec::parse("model").unwrap(),
        StoreSpec::Model(ModelConfig::default())
    );
    assert_eq!(StoreSpec::default(), StoreSpec::Posix);
}

#[test]
fn a_text_that_names_no_store_is_refused() {
    let error = |text| StoreSpec::parse(text).unwrap_err().to_string();
    assert_eq!(
        error("nfs"),
        "unknown store `nfs`: expected posix, model or fault"
    );
    assert_eq!(
        error("posix:fast"),
        "store `posix` takes no options, not `fast`"
    );
    assert_eq!(
        error("model:x=1").split(':').next(),
        Some("unknown model option `x`")
    );
    assert_eq!(
        error("fault"),
        "fault plan is empty: expected rules such as `write:enospc@3`"
    );
}

#[test]
fn every_kind_is_built_and_counted() {
    let (scratch, file) = (Scratch::new(), file(b"abc"));
    for (text, read) in [
        ("posix", Ok(b"abc".to_vec())),
        ("model:service_us=1", Ok(b"abc".to_vec())),
        ("fault:read:eio@1", Err(EIO)),
    ] {
        let store = build(&text.parse().unwrap(), scratch.path(), scratch.fd()).unwrap();
        assert_eq!(store.read_vec(fd(&file), 0, 9), read, "{text}");
        assert_eq!(store.counts().read_requests, 1);
    }
}

#[test]
fn agents_that_disagree_about_the_model_are_told() {
    let scratch = Scratch::new();
    let model = |servers| {
        StoreSpec::Model(ModelConfig {
            servers,
            ..ModelConfig::default()
        })
    };
    build(&model(2), scratch.path(), scratch.fd())
        .map(drop)
        .unwrap();
    build(&model(2), scratch.path(), scratch.fd())
        .map(drop)
        .unwrap();
    let error = build(&model(3), scratch.path(), scratch.fd())
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("not a queue of 3 servers"), "{error}");
}
