//! The ELF note of the plugin, which the host reads before it loads the file (inlay/note.h).

use crate::abi::*;

/// The size of the texts of a note.
pub const TEXT_BYTES: usize = 64;

#[repr(C, align(4))]
pub struct Note {
    owner_bytes: u32,
    descriptor_bytes: u32,
    kind: u32,
    owner: [u8; 8],
    head: inlay_note,
    text: [u8; TEXT_BYTES],
}

/// The note of a plugin whose operators are all ONNX's own. Use it as
/// `#[used] #[link_section = ".note.inlay"] static NOTE: Note = note::of("name", "provider", "1.0.0");`
pub const fn of(plugin: &str, providers: &str, version: &str) -> Note {
    let domains = "";
    let parts = [plugin.as_bytes(), providers.as_bytes(), domains.as_bytes(), version.as_bytes()];
    let mut text = [0u8; TEXT_BYTES];
    let mut at = 0;
    let mut part = 0;
    while part < parts.len() {
        let mut i = 0;
        while i < parts[part].len() {
            text[at] = parts[part][i]; // too long: a compile error
            at += 1;
            i += 1;
        }
        at += 1; // the NUL
        part += 1;
    }
    let head_bytes = std::mem::size_of::<inlay_note>();
    Note {
        owner_bytes: INLAY_NOTE_OWNER.len() as u32,
        descriptor_bytes: (head_bytes + TEXT_BYTES) as u32,
        kind: INLAY_NOTE_PLUGIN,
        owner: [b'i', b'n', b'l', b'a', b'y', 0, 0, 0],
        head: inlay_note {
            struct_size: head_bytes as u32,
            abi_major: INLAY_ABI_MAJOR,
            abi_minor: INLAY_ABI_MINOR,
            abi_minor_oldest: 0,
            isa: isa(),
            isa_extra: 0,
            sanitizers: 0,
            threading: INLAY_THREADING_HOST,
            flags: 0,
            text_bytes: TEXT_BYTES as u32,
        },
        text,
    }
}

/// The instruction-set level that rustc was told to use (-C target-cpu).
const fn isa() -> u32 {
    if cfg!(target_feature = "avx512f") {
        INLAY_ISA_X86_64_V4
    } else if cfg!(target_feature = "avx") {
        INLAY_ISA_X86_64_V3
    } else if cfg!(target_feature = "sse4.2") {
        INLAY_ISA_X86_64_V2
    } else {
        INLAY_ISA_BASELINE
    }
}
