//! As much of the protocol buffer encoding as a trace for Perfetto needs, and the numbers of the
//! fields of its messages.

/// A message under construction.
#[derive(Default)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
}

impl Message {
    /// Forgets all fields, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// An integer field.
    pub(super) fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// A field of eight bytes.
    pub(super) fn fixed(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.bytes.extend(value.to_le_bytes());
    }

    /// A text field.
    pub(super) fn text(&mut self, field: u32, value: &str) {
        self.raw(field, value.as_bytes());
    }

    /// A message within this one.
    pub(super) fn message(&mut self, field: u32, inner: &Message) {
        self.raw(field, &inner.bytes);
    }

    fn raw(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.bytes.extend(value);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// Fields of `Trace`.
pub(super) mod trace {
    pub(in super::super) const PACKET: u32 = 1;
}

/// Fields of `TracePacket`.
pub(super) mod packet {
    pub(in super::super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(in super::super) const TIMESTAMP: u32 = 8;
    pub(in super::super) const SEQUENCE: u32 = 10;
    pub(in super::super) const TRACK_EVENT: u32 = 11;
    pub(in super::super) const INTERNED: u32 = 12;
    pub(in super::super) const SEQUENCE_FLAGS: u32 = 13;
    pub(in super::super) const TRACK: u32 = 60;
    /// A value of `SEQUENCE_FLAGS`: what was interned before is forgotten.
    pub(in super::super) const STATE_CLEARED: u64 = 1;
    /// A value of `SEQUENCE_FLAGS`: what was interned before is needed.
    pub(in super::super) const STATE_NEEDED: u64 = 2;
}

/// Fields of `ClockSnapshot`, its `Clock`, and the numbers of two clocks.
pub(super) mod clock {
    pub(in super::super) const CLOCKS: u32 = 1;
    pub(in super::super) const ID: u32 = 1;
    pub(in super::super) const TIMESTAMP: u32 = 2;
    pub(in super::super) const REALTIME: u64 = 1;
    pub(in super::super) const BOOTTIME: u64 = 6;
}

/// Fields of `TrackDescriptor`, `ProcessDescriptor`, `ThreadDescriptor` and `CounterDescriptor`.
pub(super) mod track {
    pub(in super::super) const UUID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
    pub(in super::super) const PROCESS: u32 = 3;
    pub(in super::super) const THREAD: u32 = 4;
    pub(in super::super) const PARENT: u32 = 5;
    pub(in super::super) const COUNTER: u32 = 8;
    pub(in super::super) const PROCESS_PID: u32 = 1;
    pub(in super::super) const PROCESS_NAME: u32 = 6;
    pub(in super::super) const THREAD_PID: u32 = 1;
    pub(in super::super) const THREAD_TID: u32 = 2;
    pub(in super::super) const THREAD_NAME: u32 = 5;
    pub(in super::super) const COUNTER_UNIT_NAME: u32 = 6;
}

/// Fields of `TrackEvent`, and its types.
pub(super) mod event {
    pub(in super::super) const CATEGORY: u32 = 3;
    pub(in super::super) const ANNOTATION: u32 = 4;
    pub(in super::super) const TYPE: u32 = 9;
    pub(in super::super) const NAME: u32 = 10;
    pub(in super::super) const TRACK: u32 = 11;
    pub(in super::super) const COUNTER_VALUE: u32 = 30;
    pub(in super::super) const FLOW: u32 = 47;
    pub(in super::super) const SLICE_BEGIN: u64 = 1;
    pub(in super::super) const SLICE_END: u64 = 2;
    pub(in super::super) const COUNTER: u64 = 4;
}

/// Fields of `InternedData` and of the things in it.
pub(super) mod interned {
    pub(in super::super) const CATEGORIES: u32 = 1;
    pub(in super::super) const NAMES: u32 = 2;
    pub(in super::super) const ANNOTATION_NAMES: u32 = 3;
    pub(in super::super) const ANNOTATION_TEXTS: u32 = 29;
    pub(in super::super) const ID: u32 = 1;
    pub(in super::super) const TEXT: u32 = 2;
}

/// Fields of `DebugAnnotation`.
pub(super) mod annotation {
    pub(in super::super) const NAME: u32 = 1;
    pub(in super::super) const UNSIGNED: u32 = 3;
    pub(in super::super) const SIGNED: u32 = 4;
    pub(in super::super) const TEXT: u32 = 17;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_protocol_buffers_are() {
        let mut inner = Message::default();
        inner.number(1, 150);
        let mut outer = Message::default();
        outer.message(3, &inner);
        outer.text(2, "testing");
        assert_eq!(
            outer.bytes, b"\x1a\x03\x08\x96\x01\x12\x07testing",
            "the examples of the encoding's own page"
        );
    }
}
