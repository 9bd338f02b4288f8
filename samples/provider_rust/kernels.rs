//! Ten element-wise operators on float. To add one, write its function and a row of the table.

#[derive(Clone, Copy)]
pub enum Function {
    Unary(fn(&[f32], &mut [f32])),
    Binary(fn(&[f32], &[f32], &mut [f32])),
}

pub struct Kernel {
    pub op_type: &'static str,
    /// The newest version of the operator that the function implements.
    pub newest: u32,
    /// Nanoseconds for each element, on one thread.
    pub ns: f64,
    pub function: Function,
}

fn map(x: &[f32], y: &mut [f32], f: impl Fn(f32) -> f32) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = f(x));
}

fn zip(a: &[f32], b: &[f32], y: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    y.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (&a, &b))| *y = f(a, b));
}

// Macros, because constant functions of older compilers take no functions with &mut parameters.
macro_rules! unary {
    ($op_type:expr, $newest:expr, $ns:expr, $f:expr) => {
        Kernel { op_type: $op_type, newest: $newest, ns: $ns, function: Function::Unary(|x, y| map(x, y, $f)) }
    };
}
macro_rules! binary {
    ($op_type:expr, $ns:expr, $f:expr) => {
        Kernel { op_type: $op_type, newest: 14, ns: $ns, function: Function::Binary(|a, b, y| zip(a, b, y, $f)) }
    };
}

pub static KERNELS: [Kernel; 10] = [
    unary!("Abs", 13, 0.4, f32::abs),
    unary!("Neg", 13, 0.4, |v| -v),
    unary!("Relu", 14, 0.4, |v| if v < 0.0 { 0.0 } else { v }), // not f32::max, which loses a NaN
    unary!("Sqrt", 13, 0.8, f32::sqrt),
    unary!("Exp", 13, 8.0, f32::exp),
    unary!("Sigmoid", 13, 9.0, |v| 1.0 / (1.0 + (-v).exp())),
    unary!("Tanh", 13, 20.0, f32::tanh),
    binary!("Add", 0.5, |a, b| a + b),
    binary!("Sub", 0.5, |a, b| a - b),
    binary!("Mul", 0.5, |a, b| a * b),
];
