//! A gift as JSON: the event as it was accepted.

use std::fmt::Write;

use super::gift::push_value;
use super::json::push_string;
use super::{Gift, Show};

impl Gift {
    /// Appends the event as it was accepted: cleaned, with its id, in the members that a producer sends.
    pub fn push_json(&self, out: &mut String) {
        let _ = write!(out, "{{\"id\":\"{}\",\"user\":{},", self.id, self.user.to_json());
        let _ = write!(out, "\"gift\":{},\"count\":{}", self.gift.to_json(), self.count);
        push_value(out, self.value.as_ref());
        if let Some(combo) = &self.combo {
            out.push_str(",\"combo\":{\"id\":");
            push_string(out, &combo.id);
            let _ = write!(out, ",\"count\":{}", combo.count);
            out.push_str(if combo.end { ",\"end\":true}" } else { "}" });
        }
        if let Some(message) = &self.message {
            out.push_str(",\"message\":");
            push_string(out, message);
        }
        if let Some(tier) = self.tier {
            let _ = write!(out, ",\"tier\":{tier}");
        }
        if let Some(at) = self.occurred_at {
            let _ = write!(out, ",\"occurred_at\":\"{at}\"");
        }
        match self.show {
            Show::ByPolicy => {}
            Show::After(ms) => drop(write!(out, ",\"delay_ms\":{ms}")),
            Show::At(at) => drop(write!(out, ",\"deliver_at\":\"{at}\"")),
        }
        if self.test {
            out.push_str(",\"test\":true");
        }
        if let Some(meta) = &self.meta {
            let _ = write!(out, ",\"meta\":{meta}");
        }
        out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::{Gift, json};

    fn parse(text: &str) -> Gift {
        Gift::parse(json::syntax(text.as_bytes()).unwrap(), None).unwrap()
    }

    #[test]
    fn the_event_is_what_a_producer_could_have_sent() {
        for text in [
            r#"{"id":"a","user":{"id":"u\n","name":"U"},"gift":{"id":"g","name":"\"G\""},"count":1}"#,
            r#"{"id":"b","user":{"id":"u","name":"U","avatar":"https://a.example/u"},"gift":{"id":"g","name":"G","icon":"https://a.example/g"},"count":7,"value":{"amount":9007199254740991,"currency":"EUR"},"combo":{"id":"c \"1\"","count":3,"end":true},"message":"hi","tier":0,"occurred_at":"2026-01-31T12:00:00.000Z","deliver_at":"2026-01-31T12:00:05.000Z","test":true,"meta":{"z":1,"a":[1e999]}}"#,
            r#"{"id":"c","user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"},"count":1,"delay_ms":0}"#,
        ] {
            let gift = parse(text);
            let mut out = String::new();
            gift.push_json(&mut out);
            assert_eq!(out, text);
            assert_eq!(parse(&out), gift);
        }
    }
}
