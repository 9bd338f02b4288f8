#include "serve/chat/completion_request.h"
#include "serve/chat/models.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The model that the path names. If the body names no model, or one that does not exist: the only model for texts. */
static void find_model(completion_request *request, const request_form *form, const struct exchange *exchange)
{
    const size_t bytes = request->model != NULL ? strlen(request->model) : 0;
    const size_t end_bytes = form->name_end != NULL ? strlen(form->name_end) : 0;
    char only[MODELS_NAME_BYTES], note[2 * MODELS_NAME_BYTES + 80];
    json_t *name = NULL;

    if (exchange->route.name != NULL) {
        name = json_stringn(exchange->route.name, exchange->route.name_bytes);
    } else if (end_bytes > 0 && bytes > end_bytes && strcmp(request->model + bytes - end_bytes, form->name_end) == 0) {
        name = json_stringn(request->model, bytes - end_bytes);
    } else if (models_stand_in(exchange->request.server->repository, request->model, TEXT_GENERATES, only)) {
        (void)snprintf(note, sizeof note, "%s%.*s%s; the only one that generates texts, '%s', answers",
                       request->model != NULL ? "there is no model '" : "the request names no model", MODELS_NAME_BYTES,
                       request->model != NULL ? request->model : "", request->model != NULL ? "'" : "", only);
        tool_set_warn(&request->calls.tools, note);
        name = json_string(only);
    }
    if (name != NULL && json_array_append_new(request->made, name) == 0)
        request->model = json_string_value(name);
}

static bool check_tools(completion_request *request, body_error *error)
{
    tool_set *tools = &request->calls.tools;

    if (tools->given_choice != NULL && !tool_set_choose(tools, tools->given_choice, error)) {
        char why[sizeof error->text];

        (void)snprintf(why, sizeof why, "tool_choice: %.200s", error->text);
        return body_fail_parameter(error, "tool_choice", why);
    }
    return true;
}

bool completion_request_read(completion_request *request, const request_form *form, struct exchange *exchange,
                             body_error *error)
{
    *request = (completion_request){ .chat = form->chat,
                                     .prompt.name = form->prompt,
                                     .response = form->response,
                                     .streams = form->streams,
                                     .choices = 1,
                                     .logs.prompt = -1,
                                     .sampler = { .temperature = NAN,
                                                  .top_p = NAN,
                                                  .min_p = NAN,
                                                  .penalty = NAN,
                                                  .typical_p = NAN,
                                                  .epsilon_cutoff = NAN,
                                                  .eta_cutoff = NAN,
                                                  .xtc_threshold = 0.1F,
                                                  .dry.base = 1.75F,
                                                  .dry.allowed = 2,
                                                  .top_k = OPEN_COUNT },
                                     .no_repeat = OPEN_COUNT };
    ascii_add(&request->sampler.dry.breakers, "\n:\"*", 4);
    request->dialog.messages = json_array();
    request->dialog.continues = form->continues;
    request->made = json_array();
    if (request->dialog.messages == NULL || request->made == NULL)
        return body_fail_parameter(error, "messages", "out of memory for the messages");
    request->body = body_read(exchange, form->table, request, error);
    if (request->body == NULL)
        return false;
    find_model(request, form, exchange);
    if (!request->has_max_tokens)
        request->ends.max_tokens = form->max_tokens;
    if (request->model == NULL)
        return body_fail_parameter(error, "model", "the request has no model, and there are several, or none");
    if (form->finish != NULL && !form->finish(request, error))
        return false;
    if (request->chat ? json_array_size(request->dialog.messages) == 0 : request->prompt.list.count == 0) {
        char why[80];

        (void)snprintf(why, sizeof why, "the request has no %s%s", form->prompt, request->chat ? "" : " (a text)");
        return body_fail_parameter(error, form->prompt, why);
    }
    if (form->is_single && (request->prompt.list.count > 1 || request->choices > 1))
        return body_fail_parameter(error, form->prompt, "this path takes one text and returns one");
    if (form->is_single && (request->logs.wanted || request->logs.prompt >= 0))
        return body_fail_parameter(error, "logprobs", "this path returns no log probabilities");
    if (request->dialog.instructions != NULL) {
        json_t *first = json_pack("{s:s, s:s}", "role", "system", "content", request->dialog.instructions);

        if (first == NULL || json_array_insert_new(request->dialog.messages, 0, first) != 0)
            return body_fail_parameter(error, "instructions", "out of memory for the messages");
    }
    if (request->candidates == 0)
        request->candidates = request->choices;
    if (request->candidates < request->choices)
        return body_fail_parameter(error, "best_of", "best_of is smaller than n");
    if (request->streams && request->candidates > request->choices)
        return body_fail_parameter(error, "best_of", "a stream cannot choose the best of several texts; omit best_of");
    if (request->ends.min_tokens > request->ends.max_tokens)
        return body_fail_parameter(error, "min_tokens", "min_tokens is larger than max_tokens");
    if (request->streams && request->logs.prompt >= 0)
        return body_fail_parameter(error, "prompt_logprobs", "prompt_logprobs is not supported in a stream");
    if (request->echoes && request->prompt.suffix != NULL)
        return body_fail_parameter(error, "echo", "echo is not supported together with suffix");
    for (uint32_t i = 0; request->prompt.suffix != NULL && i < request->prompt.list.count; i++)
        if (request->prompt.list.texts[i].text == NULL)
            return body_fail_parameter(error, "suffix", "suffix needs prompts that are texts, not tokens");
    if (request->images.count > 0 && request->logs.prompt >= 0)
        return body_fail_parameter(error, "prompt_logprobs", "prompt_logprobs is not supported together with images");
    if (request->chat && request->logs.top > 0 && !request->logs.wanted)
        return body_fail_parameter(error, "top_logprobs", "top_logprobs needs \"logprobs\": true");
    if (request->chat)
        return check_tools(request, error);
    if (request->prompt.list.count * request->candidates > MAX_TEXTS)
        return body_fail_parameter(error, "n", "more than 128 texts in one request");
    return true;
}

void completion_request_deinit(completion_request *request)
{
    input_list_deinit(&request->prompt.list);
    for (uint32_t i = 0; i < request->images.count; i++)
        free((void *)(uintptr_t)request->images.list[i].data);
    free(request->images.list);
    free(request->bias);
    sequences_deinit(&request->banned);
    grammar_destroy(request->form);
    grammar_destroy(request->calls.grammar);
    tool_set_deinit(&request->calls.tools);
    sampler_deinit(&request->sampler);
    json_decref(request->dialog.messages);
    json_decref(request->made);
    json_decref(request->body);
}
