/* llama-server's /infill and /completion, and KServe's generate and generate_stream. */
#include "serve/chat/request_fields.h"

/* Also if it is empty. */
static bool read_input_suffix(void *user, json_t *value, body_error *error)
{
    ((completion_request *)user)->prompt.suffix = json_string_value(value);
    return json_is_string(value) || body_fail(error, "not a text");
}

static bool check_suffix(completion_request *request, body_error *error)
{
    return request->prompt.list.count == 0 || request->prompt.suffix != NULL ||
           body_fail_parameter(error, "input_suffix", "the request has no input_suffix (a text)");
}

static const body_parameter infill_rows[] = { { "input_prefix", field_prompts },
                                              { "input_suffix", read_input_suffix },
                                              { "input_extra", field_nothing },
                                              { "prompt", field_empty },
                                              { "samplers", NULL },
                                              { "t_max_prompt_ms", NULL },
                                              { "t_max_predict_ms", field_zero } };
static const body_table infill = { infill_rows, sizeof infill_rows / sizeof *infill_rows, &common_fields };

static const body_parameter llama_rows[] = { { "prompt", field_prompts },
                                             { "samplers", NULL },
                                             { "t_max_predict_ms", field_zero },
                                             { "return_tokens", field_no },
                                             { "post_sampling_probs", field_no } };
static const body_table llama = { llama_rows, sizeof llama_rows / sizeof *llama_rows, &common_fields };

static bool read_nested(void *user, json_t *value, body_error *error);

static const body_parameter generate_rows[] = {
    { "text_input", field_prompts }, { "parameters", read_nested }, { "id", NULL }, { "details", NULL }
};
static const body_table generate = { generate_rows, sizeof generate_rows / sizeof *generate_rows, &common_fields };

/* The member "parameters" of KServe's requests; Triton's requests have these members at the top level. */
static bool read_nested(void *user, json_t *value, body_error *error)
{
    return field_members(value, &generate, user, error);
}

const request_form form_infill = { .table = &infill,
                                   .prompt = "input_prefix",
                                   .reply = &llama_reply,
                                   .finish = check_suffix,
                                   .is_single = true,
                                   .max_tokens = COMPLETION_TOKENS };
const request_form form_llama = {
    .table = &llama, .prompt = "prompt", .reply = &llama_reply, .is_single = true, .max_tokens = MAX_TOKENS
};
const request_form form_generate = { .table = &generate,
                                     .prompt = "text_input",
                                     .reply = &generate_reply,
                                     .is_single = true,
                                     .max_tokens = COMPLETION_TOKENS };
const request_form form_generate_stream = { .table = &generate,
                                            .prompt = "text_input",
                                            .reply = &generate_reply,
                                            .is_single = true,
                                            .streams = true,
                                            .max_tokens = COMPLETION_TOKENS };
