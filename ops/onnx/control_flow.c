/* onnx/control_flow.c - operators with bodies. The host runs them, and infers their shapes from the bodies. */
#include "schema.h"

static const op_row onnx_control_flow_rows[] = {
    { "If", 1, OP_HOST, "cond:B -> outputs%:V; V=@all, B=bool; else_branch:g!, then_branch:g!", NULL },
    { "If", 11, OP_HOST, "cond:B -> outputs%:V; V=@all, B=bool; else_branch:g!, then_branch:g!", NULL },
    { "If", 13, OP_HOST, "cond:B -> outputs%:V; V=@all|seq(@all), B=bool; else_branch:g!, then_branch:g!", NULL },
    { "If", 16, OP_HOST,
      "cond:B -> outputs%:V; V=@all_ir4|seq(@all_ir4)|optional(@all_ir4)|optional(seq(@all_ir4)), B=bool; "
      "else_branch:g!, then_branch:g!",
      NULL },
    { "If", 19, OP_HOST,
      "cond:B -> outputs%:V; V=@all_ir9|seq(@all_ir9)|optional(@all_ir9)|optional(seq(@all_ir4)), B=bool; "
      "else_branch:g!, then_branch:g!",
      NULL },
    { "If", 21, OP_HOST,
      "cond:B -> outputs%:V; V=@all_ir10|seq(@all_ir10)|optional(@all_ir10)|optional(seq(@all_ir4)), B=bool; "
      "else_branch:g!, then_branch:g!",
      NULL },
    { "If", 23, OP_HOST,
      "cond:B -> outputs%:V; V=@all_ir11|seq(@all_ir11)|optional(@all_ir11)|optional(seq(@all_ir4)), B=bool; "
      "else_branch:g!, then_branch:g!",
      NULL },
    { "If", 24, OP_HOST,
      "cond:B -> outputs%:V; V=@all_ir12|seq(@all_ir12)|optional(@all_ir12)|optional(seq(@all_ir4)), B=bool; "
      "else_branch:g!, then_branch:g!",
      NULL },
    { "If", 25, OP_HOST,
      "cond:B -> outputs%:V; V=@all_ir13|seq(@all_ir13)|optional(@all_ir13)|optional(seq(@all_ir4)), B=bool; "
      "else_branch:g!, then_branch:g!",
      NULL },

    { "Loop", 1, OP_HOST,
      "M?:I, cond?:B, v_initial%:V -> v_final_and_scan_outputs%:V; V=@all, I=int64, B=bool; body:g!", NULL },
    { "Loop", 11, OP_HOST,
      "M?:I, cond?:B, v_initial%0:V -> v_final_and_scan_outputs%:V; V=@all, I=int64, B=bool; body:g!", NULL },
    { "Loop", 13, OP_HOST,
      "M?:I, cond?:B, v_initial%0:V -> v_final_and_scan_outputs%:V; V=@all|seq(@all), I=int64, B=bool; body:g!", NULL },
    { "Loop", 16, OP_HOST,
      "M?:I, cond?:B, v_initial%0:V -> v_final_and_scan_outputs%:V; "
      "V=@all_ir4|seq(@all_ir4)|optional(@all_ir4)|optional(seq(@all_ir4)), I=int64, B=bool; body:g!",
      NULL },
    { "Loop", 19, OP_HOST,
      "M?:I, cond?:B, v_initial%0:V -> v_final_and_scan_outputs%:V; "
      "V=@all_ir9|seq(@all_ir9)|optional(@all_ir9)|optional(seq(@all_ir4)), I=int64, B=bool; body:g!",
      NULL },
    { "Loop", 21, OP_HOST,
      "M?:I, cond?:B, v_initial%0:V -> v_final_and_scan_outputs%:V; "
      "V=@all_ir10|seq(@all_ir10)|optional(@all_ir10)|optional(seq(@all_ir4)), I=int64, B=bool; body:g!",
      NULL },
    { "Loop", 23, OP_HOST,
      "M?:I, cond?:B, v_initial%0:V -> v_final_and_scan_outputs%:V; "
      "V=@all_ir11|seq(@all_ir11)|optional(@all_ir11)|optional(seq(@all_ir4)), I=int64, B=bool; body:g!",
      NULL },
    { "Loop", 24, OP_HOST,
      "M?:I, cond?:B, v_initial%0:V -> v_final_and_scan_outputs%:V; "
      "V=@all_ir12|seq(@all_ir12)|optional(@all_ir12)|optional(seq(@all_ir4)), I=int64, B=bool; body:g!",
      NULL },
    { "Loop", 25, OP_HOST,
      "M?:I, cond?:B, v_initial%0:V -> v_final_and_scan_outputs%:V; "
      "V=@all_ir13|seq(@all_ir13)|optional(@all_ir13)|optional(seq(@all_ir4)), I=int64, B=bool; body:g!",
      NULL },

    { "Scan", 8, OP_HOST,
      "sequence_lens?:I, initial_state_and_scan_inputs%:V -> final_state_and_scan_outputs%:V; I=int64, V=@all; "
      "body:g!, directions:is, num_scan_inputs:i!",
      NULL },
    { "Scan", 9, OP_HOST,
      "initial_state_and_scan_inputs%:V -> final_state_and_scan_outputs%:V; V=@all; body:g!, num_scan_inputs:i!, "
      "scan_input_axes:is, scan_input_directions:is, scan_output_axes:is, scan_output_directions:is",
      NULL },
    { "Scan", 11, OP_HOST,
      "initial_state_and_scan_inputs%:V -> final_state_and_scan_outputs%:V; V=@all; body:g!, num_scan_inputs:i!, "
      "scan_input_axes:is, scan_input_directions:is, scan_output_axes:is, scan_output_directions:is",
      NULL },
    { "Scan", 16, OP_HOST,
      "initial_state_and_scan_inputs%:V -> final_state_and_scan_outputs%:V; V=@all_ir4; body:g!, num_scan_inputs:i!, "
      "scan_input_axes:is, scan_input_directions:is, scan_output_axes:is, scan_output_directions:is",
      NULL },
    { "Scan", 19, OP_HOST,
      "initial_state_and_scan_inputs%:V -> final_state_and_scan_outputs%:V; V=@all_ir9; body:g!, num_scan_inputs:i!, "
      "scan_input_axes:is, scan_input_directions:is, scan_output_axes:is, scan_output_directions:is",
      NULL },
    { "Scan", 21, OP_HOST,
      "initial_state_and_scan_inputs%:V -> final_state_and_scan_outputs%:V; V=@all_ir10; body:g!, num_scan_inputs:i!, "
      "scan_input_axes:is, scan_input_directions:is, scan_output_axes:is, scan_output_directions:is",
      NULL },
    { "Scan", 23, OP_HOST,
      "initial_state_and_scan_inputs%:V -> final_state_and_scan_outputs%:V; V=@all_ir11; body:g!, num_scan_inputs:i!, "
      "scan_input_axes:is, scan_input_directions:is, scan_output_axes:is, scan_output_directions:is",
      NULL },
    { "Scan", 24, OP_HOST,
      "initial_state_and_scan_inputs%:V -> final_state_and_scan_outputs%:V; V=@all_ir12; body:g!, num_scan_inputs:i!, "
      "scan_input_axes:is, scan_input_directions:is, scan_output_axes:is, scan_output_directions:is",
      NULL },
    { "Scan", 25, OP_HOST,
      "initial_state_and_scan_inputs%:V -> final_state_and_scan_outputs%:V; V=@all_ir13; body:g!, num_scan_inputs:i!, "
      "scan_input_axes:is, scan_input_directions:is, scan_output_axes:is, scan_output_directions:is",
      NULL },

    { "SequenceMap", 17, OP_HOST,
      "input_sequence:S, additional_inputs%0:V -> out_sequence%:S; S=seq(@all), V=@all|seq(@all); body:g!", NULL },
};

const op_table op_onnx_control_flow = { "ai.onnx", onnx_control_flow_rows, OP_COUNT(onnx_control_flow_rows) };
