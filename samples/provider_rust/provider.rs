//! The functions of the provider (inlay_provider in inlay/plugin.h). Everything unsafe is here.
//!
//! Each node is one region. Nothing depends on shapes, so the compiled region is its own instance.

use crate::abi::*;
use crate::kernels::{Function, Kernel, KERNELS};
use std::alloc::{alloc, dealloc, Layout};
use std::os::raw::{c_char, c_void};

const OK: inlay_status = INLAY_OK as inlay_status;
const GRAIN: i64 = 16384; // elements: less is not worth a thread

/// The host, which create gets; the state of the provider.
struct State {
    host: *const inlay_host,
}

/// Where an operand of a node is.
#[derive(Clone, Copy)]
enum Operand {
    Input(usize),
    Constant(*const f32),
}

struct Region {
    function: Function,
    operands: [Operand; 2],
}

// ------------------------------------------------------------------ helpers

/// Writes the message of a failure and returns its status.
pub unsafe fn fail(diag: *mut inlay_diag, status: u32, text: &str) -> inlay_status {
    let room = &mut (*diag).text;
    let bytes = text.len().min(room.len() - 1);
    for (to, from) in room.iter_mut().zip(&text.as_bytes()[..bytes]) {
        *to = *from as c_char;
    }
    room[bytes] = 0;
    status as inlay_status
}

/// Like Box::into_raw(Box::new(value)), but returns NULL if memory runs out, where Box ends the process.
unsafe fn new<T>(value: T) -> *mut T {
    let at = alloc(Layout::new::<T>()) as *mut T;
    if !at.is_null() {
        at.write(value);
    }
    at
}

unsafe fn free<T>(at: *mut T) {
    if !at.is_null() {
        at.drop_in_place();
        dealloc(at as *mut u8, Layout::new::<T>());
    }
}

/// Element i of an array whose elements may be longer than ours.
unsafe fn at<T>(first: *const T, stride: u32, i: u32) -> *const T {
    (first as *const u8).add(stride as usize * i as usize) as *const T
}

unsafe fn text(s: &inlay_str) -> &[u8] {
    std::slice::from_raw_parts(s.data as *const u8, s.bytes as usize)
}

unsafe fn array<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if count == 0 { &[] } else { std::slice::from_raw_parts(first, count as usize) }
}

unsafe fn node_of<'a>(graph: &inlay_graph, i: u32) -> &'a inlay_node_info {
    &*at(graph.nodes, graph.node_stride, i)
}

unsafe fn value_of<'a>(graph: &inlay_graph, i: u32) -> &'a inlay_value_info {
    &*at(graph.values, graph.value_stride, i)
}

unsafe fn kernel_of(node: &inlay_node_info) -> Option<&'static Kernel> {
    let name = text(&node.op_type);
    KERNELS.iter().find(|kernel| text(&node.domain) == b"ai.onnx" && kernel.op_type.as_bytes() == name)
}

unsafe fn same_shape(a: &inlay_value_info, b: &inlay_value_info) -> bool {
    a.rank == b.rank
        && a.rank != INLAY_RANK_UNKNOWN
        && array(a.dims, a.rank).iter().zip(array(b.dims, b.rank)).all(|(a, b)| {
            a.kind == b.kind && a.value == b.value && a.symbol == b.symbol && a.kind != INLAY_DIM_UNKNOWN
        })
}

// ------------------------------------------------------------------ create, assess, cost

unsafe extern "C" fn create(
    _: *mut c_void,
    host: *const inlay_host,
    _: *const inlay_create_args,
    out_state: *mut *mut c_void,
    diag: *mut inlay_diag,
) -> inlay_status {
    *out_state = new(State { host }) as *mut c_void;
    if (*out_state).is_null() { fail(diag, INLAY_OUT_OF_MEMORY, "out of memory") } else { OK }
}

unsafe extern "C" fn destroy(state: *mut c_void) {
    free(state as *mut State);
}

/// Why a node cannot be run: the code, the reason, and what would help (both end with NUL); None: it can.
unsafe fn refusal(graph: &inlay_graph, node: &inlay_node_info) -> Option<(u32, &'static str, &'static str)> {
    let kernel = match kernel_of(node) {
        Some(kernel) => kernel,
        None => return Some((INLAY_REFUSE_OPERATOR, "oxide has no kernel for this operator\0", "\0")),
    };
    let inputs = array(node.inputs, node.input_count);

    if node.since_version > kernel.newest {
        return Some((INLAY_REFUSE_VERSION, "the operator is newer than the kernel\0", "an earlier opset\0"));
    }
    if inputs.iter().any(|&i| value_of(graph, i).dtype != INLAY_FLOAT as inlay_dtype) {
        return Some((INLAY_REFUSE_DTYPE, "the kernels take float\0", "insert a Cast to float\0"));
    }
    if inputs.len() == 2 && !same_shape(value_of(graph, inputs[0]), value_of(graph, inputs[1])) {
        return Some((INLAY_REFUSE_SHAPE, "the kernel does not broadcast\0", "give both inputs one shape\0"));
    }
    None
}

unsafe extern "C" fn assess(
    _: *mut c_void,
    request: *const inlay_assess_request,
    _: *mut inlay_diag,
) -> inlay_status {
    let inlay_assess_request { graph, candidates, sink, .. } = *request;

    for i in 0..(*graph).node_count {
        if *candidates.add(i as usize) == 0 {
            continue;
        }
        let status = match refusal(&*graph, node_of(&*graph, i)) {
            None => {
                let offer = inlay_offer {
                    struct_size: std::mem::size_of::<inlay_offer>() as u64,
                    nodes: &i,
                    node_count: 1,
                    ..std::mem::zeroed()
                };
                (*sink).offer.unwrap()((*sink).ctx, &offer)
            }
            Some((code, reason, accepted_if)) => {
                let refusal = inlay_refusal {
                    struct_size: std::mem::size_of::<inlay_refusal>() as u64,
                    node: i,
                    code,
                    text: reason.as_ptr() as *const c_char,
                    accepted_if: if accepted_if.len() > 1 {
                        accepted_if.as_ptr() as *const c_char
                    } else {
                        std::ptr::null()
                    },
                    ..std::mem::zeroed()
                };
                (*sink).refuse.unwrap()((*sink).ctx, &refusal)
            }
        };
        if status != OK {
            return status;
        }
    }
    OK
}

unsafe extern "C" fn cost(
    _: *mut c_void,
    request: *const inlay_cost_request,
    cost: *mut inlay_cost,
    _: *mut inlay_diag,
) -> inlay_status {
    let request = &*request;
    let node = node_of(&*request.graph, *(*request.offer).nodes);
    let state = &*at(request.values, request.value_stride, *node.outputs);
    let mut count = 1000.0; // a guess if the shape is not known

    if state.rank != INLAY_RANK_UNKNOWN {
        let dims = array(state.dims, state.rank);
        if dims.iter().all(|&d| d >= 0) {
            count = dims.iter().map(|&d| d as f64).product();
        }
    }
    if let Some(kernel) = kernel_of(node) {
        let threads = if count > GRAIN as f64 { request.max_threads.max(1) as f64 } else { 1.0 };
        (*cost).ns = 100.0 + kernel.ns * count / threads;
        (*cost).flops = count;
        (*cost).bytes_read = 4 * node.input_count as u64 * count as u64;
        (*cost).bytes_written = 4 * count as u64;
    }
    OK
}

// ------------------------------------------------------------------ compile, specialize, execute

unsafe extern "C" fn compile(
    state: *mut c_void,
    request: *const inlay_compile_request,
    out_compiled: *mut *mut inlay_compiled,
    diag: *mut inlay_diag,
) -> inlay_status {
    let request = &*request;
    let graph = &*request.graph;
    let node = node_of(graph, *request.nodes);
    let host = &*(*(state as *const State)).host;
    let mut operands = [Operand::Input(0); 2];

    for (operand, &value) in operands.iter_mut().zip(array(node.inputs, node.input_count)) {
        let position = array(request.inputs, request.input_count).iter().position(|&i| i == value);
        *operand = match position {
            Some(k) => Operand::Input(k),
            None => {
                let data = host.align_constant.unwrap()(host.ctx, request.handle, value, 4);
                if data.is_null() {
                    return fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a constant");
                }
                Operand::Constant(data as *const f32)
            }
        };
    }
    let function = match kernel_of(node) {
        Some(kernel) => kernel.function,
        None => return fail(diag, INLAY_UNSUPPORTED, "oxide has no kernel for this operator"),
    };
    *out_compiled = new(Region { function, operands }) as *mut inlay_compiled;
    if (*out_compiled).is_null() { fail(diag, INLAY_OUT_OF_MEMORY, "out of memory") } else { OK }
}

unsafe extern "C" fn release_compiled(_: *mut c_void, compiled: *mut inlay_compiled) {
    free(compiled as *mut Region);
}

unsafe extern "C" fn specialize(
    _: *mut c_void,
    compiled: *mut inlay_compiled,
    _: *mut inlay_specialize_request,
    out_instance: *mut *mut inlay_instance,
    _: *mut inlay_diag,
) -> inlay_status {
    *out_instance = compiled as *mut inlay_instance;
    OK
}

unsafe extern "C" fn release_instance(_: *mut c_void, _: *mut inlay_compiled, _: *mut inlay_instance) {}

/// A run: the region, the operands' elements, and the output's.
struct Run<'a> {
    region: &'a Region,
    operands: [*const f32; 2],
    output: *mut f32,
}

unsafe extern "C" fn run_range(user: *mut c_void, begin: i64, end: i64, _: u32) -> inlay_status {
    let run = &*(user as *const Run);
    let bytes = (end - begin) as usize;
    let part = |operand: *const f32| std::slice::from_raw_parts(operand.add(begin as usize), bytes);
    let output = std::slice::from_raw_parts_mut(run.output.add(begin as usize), bytes);

    match run.region.function {
        Function::Unary(f) => f(part(run.operands[0]), output),
        Function::Binary(f) => f(part(run.operands[0]), part(run.operands[1]), output),
    }
    OK
}

unsafe extern "C" fn execute(
    state: *mut c_void,
    compiled: *mut inlay_compiled,
    _: *mut inlay_instance,
    args: *const inlay_exec_args,
) -> inlay_status {
    let region = &*(compiled as *const Region);
    let host = &*(*(state as *const State)).host;
    let args = &*args;
    let output = &*args.outputs;
    let count: i64 = array(output.dims, output.rank).iter().product();
    let address = |operand: Operand| match operand {
        Operand::Constant(data) => data,
        Operand::Input(k) => {
            let buffer = &(*at(args.inputs, args.arg_stride, k as u32)).buffer;
            (buffer.handle + buffer.offset) as *const f32
        }
    };
    let two = matches!(region.function, Function::Binary(_));
    let run = Run {
        region,
        operands: [address(region.operands[0]), if two { address(region.operands[1]) } else { std::ptr::null() }],
        output: (output.buffer.handle + output.buffer.offset) as *mut f32,
    };

    if count == 0 {
        return OK;
    }
    host.parallel_for.unwrap()(host.ctx, args.run, count, GRAIN, Some(run_range), &run as *const Run as *mut c_void)
}

// ------------------------------------------------------------------ the table

/// # Safety
/// The fields that are zeroed are optional.
pub unsafe fn table() -> inlay_provider {
    inlay_provider {
        struct_size: std::mem::size_of::<inlay_provider>() as u64,
        name: b"oxide\0".as_ptr() as *const c_char,
        description: b"ten element-wise operators in Rust\0".as_ptr() as *const c_char,
        device_kind: INLAY_DEVICE_CPU,
        poll_ms: 10, // parallel_for polls between ranges
        create: Some(create),
        destroy: Some(destroy),
        assess: Some(assess),
        cost: Some(cost),
        compile: Some(compile),
        release_compiled: Some(release_compiled),
        specialize: Some(specialize),
        release_instance: Some(release_instance),
        execute: Some(execute),
        ..std::mem::zeroed()
    }
}
