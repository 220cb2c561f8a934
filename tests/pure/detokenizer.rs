//! The streaming detokenizer: its deltas put together are the text of all tokens, whatever the tokens are.

use std::sync::Arc;

use proptest::prelude::*;
use taper_server::text::{DecodeOptions, Detokenizer, EncodeOptions, Tokenizer};

use super::tokenizer::{KINDS, tokenizer};

fn deltas(tokenizer: &Arc<Tokenizer>, ids: &[u32], options: DecodeOptions) -> Vec<String> {
    let mut stream = Detokenizer::new(Arc::clone(tokenizer), options);
    let mut deltas: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    deltas.push(stream.finish());
    deltas
}

/// The token that stands for exactly this byte.
fn byte_token(tokenizer: &Tokenizer, byte: u8) -> u32 {
    (0..tokenizer.vocab_size() as u32).find(|&id| tokenizer.token_bytes(id) == [byte]).unwrap()
}

fn byte_deltas(bytes: &[u8]) -> Vec<String> {
    let tokenizer = tokenizer("spm");
    let ids: Vec<u32> = bytes.iter().map(|&byte| byte_token(&tokenizer, byte)).collect();
    deltas(&tokenizer, &ids, DecodeOptions { skip_special: true, starts_text: false })
}

#[test]
fn a_character_is_shown_when_its_last_byte_comes() {
    assert_eq!(byte_deltas("a😀b".as_bytes()), ["a", "", "", "", "😀", "b", ""]);
}

#[test]
fn bytes_that_cannot_become_a_character_are_shown_at_once() {
    assert_eq!(byte_deltas(b"\xffa"), ["\u{fffd}", "a", ""]);
    // 0xe2 0x82 begins the euro sign; the letter shows that it will not be one.
    assert_eq!(byte_deltas(b"\xe2\x82a"), ["", "", "\u{fffd}a", ""]);
    assert_eq!(byte_deltas(b"\xe2\xe2\x82\xac"), ["", "\u{fffd}", "", "€", ""]);
}

#[test]
fn an_unfinished_character_is_replaced_at_the_end() {
    assert_eq!(byte_deltas(b"a\xf0\x9f"), ["a", "", "", "\u{fffd}"]);
}

#[test]
fn control_tokens_before_the_text_do_not_use_up_its_first_space() {
    let tokenizer = tokenizer("spm");
    let bos = tokenizer.special_tokens().bos.unwrap();
    let mut ids = vec![bos];
    ids.extend(tokenizer.encode("the dog", EncodeOptions::default()).unwrap());
    let text = deltas(&tokenizer, &ids, DecodeOptions { skip_special: true, starts_text: true }).concat();
    assert_eq!(text, "the dog");
}

/// Ids of all kinds, bytes among them often enough that they meet.
fn any_ids() -> impl Strategy<Value = (usize, Vec<u32>)> {
    let byte = (0u8..=255).prop_map(|byte| (true, u32::from(byte)));
    let id = (0u32..700).prop_map(|id| (false, id));
    (0..KINDS.len(), prop::collection::vec(prop_oneof![byte, id], 0..60)).prop_map(|(kind, picks)| {
        let tokenizer = tokenizer(KINDS[kind]);
        let ids =
            picks.into_iter().map(|(is_byte, pick)| if is_byte { byte_token(&tokenizer, pick as u8) } else { pick });
        (kind, ids.collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn deltas_put_together_are_the_whole_text((kind, ids) in any_ids(), skip_special: bool, starts_text: bool) {
        let tokenizer = tokenizer(KINDS[kind]);
        let options = DecodeOptions { skip_special, starts_text };
        prop_assert_eq!(deltas(&tokenizer, &ids, options).concat(), tokenizer.decode(&ids, options));
    }

    #[test]
    fn a_delta_is_final(
        (kind, ids) in any_ids(),
        cut in 0usize..60,
    ) {
        let tokenizer = tokenizer(KINDS[kind]);
        let options = DecodeOptions { skip_special: false, starts_text: true };
        let cut = cut.min(ids.len());
        let shown = deltas(&tokenizer, &ids, options)[..cut].concat();
        let whole = tokenizer.decode(&ids[..cut], options);
        prop_assert!(whole.starts_with(&shown), "{:?} is not the beginning of {:?}", shown, whole);
    }
}
