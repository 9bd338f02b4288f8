/* OpenAI's /v1/completions and /v1/chat/completions. */
#include "serve/chat/request_fields.h"

static bool read_echo(void *user, json_t *value, body_error *error)
{
    return body_bool(value, &((completion_request *)user)->echoes, error);
}

static bool read_candidates(void *user, json_t *value, body_error *error)
{
    return field_count(value, 1, MAX_TEXTS, &((completion_request *)user)->candidates, error);
}

/* true: the last message, one of the assistant, is the beginning of the answer, as without the parameter. */
static bool read_continues(void *user, json_t *value, body_error *error)
{
    bool continues = true;
    const bool good = body_bool(value, &continues, error);

    ((completion_request *)user)->dialog.continues = continues;
    return good;
}

/* Where the model's thought is in the reply, as llama-server has it. */
static bool read_reasoning(void *user, json_t *value, body_error *error)
{
    static const char *const forms[] = { "none", "auto", "deepseek", NULL };
    uint32_t which = 1;
    const bool good = body_choice(value, forms, &which, error);

    ((completion_request *)user)->keeps_thoughts = which == 0;
    return good;
}

static bool read_top_logprobs(void *user, json_t *value, body_error *error)
{
    return field_count(value, 0, MAX_TOP, &((completion_request *)user)->logs.top, error);
}

static bool read_modalities(void *user, json_t *value, body_error *error)
{
    static const char *const kinds[] = { "text", NULL };
    uint32_t which;

    (void)user;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!body_choice(json_array_get(value, i), kinds, &which, error))
            return false;
    return json_is_array(value) || body_fail(error, "not an array");
}

static const body_parameter completion_rows[] = {
    { "prompt", field_prompts }, { "best_of", read_candidates }, { "echo", read_echo }, { "suffix", field_suffix }
};
static const body_table completion = { completion_rows, sizeof completion_rows / sizeof *completion_rows,
                                       &common_fields };

static const body_parameter chat_rows[] = { { "messages", field_messages },
                                            { "chat_template_kwargs", field_variables },
                                            { "max_completion_tokens", field_max_tokens },
                                            { "top_logprobs", read_top_logprobs },
                                            { "modalities", read_modalities },
                                            { "add_generation_prompt", field_yes },
                                            { "continue_final_message", read_continues },
                                            { "reasoning_format", read_reasoning },
                                            { "echo", field_no },
                                            { "service_tier", field_tier },
                                            { "tools", field_tools },
                                            { "functions", field_nothing },
                                            { "tool_choice", field_tool_choice },
                                            { "store", field_no },
                                            { "parallel_tool_calls", field_parallel },
                                            { "metadata", NULL },
                                            { "safety_identifier", NULL },
                                            { "prompt_cache_key", NULL } };
static const body_table chat = { chat_rows, sizeof chat_rows / sizeof *chat_rows, &common_fields };

const request_form form_completion = { .table = &completion, .prompt = "prompt", .max_tokens = COMPLETION_TOKENS };
const request_form form_chat = {
    .table = &chat, .prompt = "messages", .chat = true, .continues = true, .max_tokens = CHAT_TOKENS
};
