//! A provider in Rust, without crates: the plugin's note, description and entry.

#[allow(non_camel_case_types, non_upper_case_globals, non_snake_case, dead_code, clippy::all)]
mod abi {
    include!(env!("INLAY_BINDINGS"));
}
mod kernels;
mod note;
mod provider;

use abi::*;
use std::mem::MaybeUninit;
use std::os::raw::c_char;
use std::ptr::addr_of_mut;

#[used]
#[link_section = ".note.inlay"]
static NOTE: note::Note = note::of("oxide", "oxide", "1.0.0");

/// The structs that the host reads. Only inlay_plugin_open writes them, which one thread at a time calls.
static mut PROVIDER: MaybeUninit<inlay_provider> = MaybeUninit::uninit();
static mut PLUGIN: MaybeUninit<inlay_plugin> = MaybeUninit::uninit();

/// # Safety
/// As inlay/plugin.h states.
#[no_mangle]
pub unsafe extern "C" fn inlay_plugin_open(
    host: *const inlay_host,
    out_plugin: *mut *const inlay_plugin,
    diag: *mut inlay_diag,
) -> inlay_status {
    if (*host).abi_major != INLAY_ABI_MAJOR {
        return provider::fail(diag, INLAY_UNSUPPORTED, "this plugin was built for another ABI; rebuild it");
    }
    let own_provider = addr_of_mut!(PROVIDER) as *mut inlay_provider;
    let plugin = addr_of_mut!(PLUGIN) as *mut inlay_plugin;

    own_provider.write(provider::table());
    plugin.write(inlay_plugin {
        struct_size: std::mem::size_of::<inlay_plugin>() as u64,
        abi_major: INLAY_ABI_MAJOR,
        abi_minor: INLAY_ABI_MINOR,
        name: b"oxide\0".as_ptr() as *const c_char,
        version: b"1.0.0\0".as_ptr() as *const c_char, // as in NOTE
        build_id: concat!(env!("INLAY_BUILD_ID"), "\0").as_ptr() as *const c_char,
        providers: own_provider,
        provider_count: 1,
        provider_stride: std::mem::size_of::<inlay_provider>() as u32,
        ..std::mem::zeroed()
    });
    *out_plugin = plugin;
    INLAY_OK as inlay_status
}
