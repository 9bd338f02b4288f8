#include "serve/chat/completion_internal.h"
#include "inlay/check.h"
#include "texts/model/messages.h"
#include "serve/chat/models.h"
#include "serve/exchange/watch.h"
#include "serve/model/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void release(struct exchange *exchange)
{
    struct completion *completion = exchange->completion;

    choice_scratch_deinit(&completion->scratch);
    for (uint32_t i = 0; i < completion->choice_count; i++)
        completion_choice_deinit(&completion->choices[i]);
    free(completion->choices);
    image_prompt_deinit(&completion->images);
    completion_request_deinit(&completion->asked);
    strbuf_deinit(&completion->events.out);
    server_release(exchange->request.server, completion->events.counted);
    (void)pthread_mutex_destroy(&completion->lock);
    free(completion);
}

static bool is_thinking(const completion_choice *choice)
{
    return choice->thinking == THOUGHT_AHEAD || choice->thinking == THOUGHT_RUNS;
}

/* Whether tools may be called, but none is so far. A text of a given form is calls as a whole, or none of it is. */
static bool may_call(const completion_choice *choice)
{
    const completion_request *asked = &choice->completion->asked;

    if (asked->calls.form == NULL || choice->calling || is_thinking(choice))
        return false;
    return asked->form != NULL ? choice->base.states[CALLS] != GRAMMAR_DEAD
                               : !(asked->calls.form->at_start && choice->said);
}

/* Number of bytes at the end of the unsent text that may begin a stop word, a call or a character. */
static size_t held_back(const completion_choice *choice)
{
    const completion_request *asked = &choice->completion->asked;

    if ((asked->form != NULL && may_call(choice)) || is_thinking(choice))
        return choice->base.unsent.size;
    return text_choice_held_back(&choice->base, may_call(choice) ? asked->calls.form->trigger : "");
}

completion_state completion_take(struct completion *completion, struct strbuf *to)
{
    completion_state state = COMPLETION_SENDS;

    (void)pthread_mutex_lock(&completion->lock);
    *to = completion->events.out;
    completion->events.out = (struct strbuf){ .failed = to->failed };
    server_release(completion->exchange->request.server, completion->events.counted);
    completion->events.counted = 0;
    if (completion->done || to->failed) {
        state = completion->done ? COMPLETION_DONE : COMPLETION_WAITS; /* out of memory: choose_token() ends the text */
    } else if (to->size == 0) {
        state = COMPLETION_WAITS;
    }
    if (state == COMPLETION_WAITS) {
        completion->waiting = true;
        request_suspend(&completion->exchange->request);
    }
    (void)pthread_mutex_unlock(&completion->lock);
    return state;
}

static void count_token(completion_choice *choice)
{
    struct completion *completion = choice->completion;
    const struct exchange *exchange = completion->exchange;
    model_stats *stats = exchange->request.job.model->metrics.stats;
    const uint64_t now = clock_ns();

    completion->tokens.generated++;
    (void)atomic_fetch_add_explicit(&stats->generated_tokens, 1, memory_order_relaxed);
    if (choice->base.token_count > 1)
        stats_add_time(&stats->next_token, now - choice->token_ns);
    else
        choice->first_token_ns = now;
    choice->token_ns = now;
    if (choice == completion->choices && choice->base.token_count == 1)
        stats_add_time(&stats->first_token, now - exchange->request.received_ns);
}

/* Begins the text with the prompt. */
static void echo_prompt(completion_choice *choice)
{
    const struct tokenizer *tokenizer = choice->base.model->tokenizer;

    for (size_t i = 0; i < choice->base.prompt_count; i++) {
        size_t bytes = 0;
        bool special = false;
        const char *text = tokenizer_bytes(tokenizer, choice->base.tokens[i], &bytes, &special);

        if (text != NULL && !special)
            strbuf_add(&choice->base.unsent, text, bytes);
    }
    completion_emit(choice, choice->base.unsent.size, NULL);
}

/* The prompt was read. */
static void end_prompt(completion_choice *choice)
{
    struct completion *completion = choice->completion;
    model_stats *stats = completion->exchange->request.job.model->metrics.stats;

    if (choice->prompt_ended)
        return;
    choice->prompt_ended = true;
    (void)atomic_fetch_add_explicit(&stats->prompt_tokens, choice->base.prompt_count, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&stats->cached_tokens, choice->base.decoding.reused, memory_order_relaxed);
    if ((size_t)(choice - completion->choices) % completion->asked.candidates == 0)
        completion->tokens.cached += choice->base.decoding.reused;
    completion->tokens.kept += choice->base.decoding.kept;
    if (completion->asked.echoes)
        echo_prompt(choice);
}

/* Whether a part of the text was lost; another thread takes the events. */
static bool is_incomplete(completion_choice *choice)
{
    struct completion *completion = choice->completion;
    bool failed;

    (void)pthread_mutex_lock(&completion->lock);
    failed = completion->events.out.failed;
    (void)pthread_mutex_unlock(&completion->lock);
    return failed || choice->base.unsent.failed || choice->calls.failed || choice->thought.failed ||
           choice->thoughts.failed;
}

/* For the ids of the text's calls. */
static uint64_t call_seed(const completion_choice *choice)
{
    const struct completion *completion = choice->completion;

    return completion->seed + (completion->id << 20) + ((uint64_t)(choice - completion->choices) << 52);
}

/* Moves the unsent text from there on to the calls. The tokens that follow obey the grammar of calls. */
static void take_calls(completion_choice *choice, size_t from, uint32_t state)
{
    struct strbuf *text = &choice->base.unsent;

    tool_reader_add(&choice->calls, text->data + from, text->size - from, call_seed(choice));
    text->size = choice->completion->asked.calls.form->at_start ? 0 : from;
    choice->calling = choice->base.is_bound = true;
    choice->base.states[ANSWER] = GRAMMAR_DEAD;
    choice->base.states[CALLS] = state;
}

/* Turns the choice into tool calls if its unsent text begins them. With a response_format as well, this happens once
 * the text no longer matches the format, or at its end if it matches both. */
static void begin_calls(completion_choice *choice, bool is_complete)
{
    const completion_request *asked = &choice->completion->asked;
    struct strbuf *text = &choice->base.unsent;
    const char *trigger = asked->calls.form->trigger;
    const char *at = text->size > 0 ? memmem(text->data, text->size, trigger, strlen(trigger)) : NULL;
    size_t before = at != NULL ? (size_t)(at - text->data) : 0;
    uint32_t state = grammar_start(asked->calls.grammar);

    if (asked->form != NULL) {
        if (is_complete ? grammar_accepts(asked->calls.grammar, choice->base.states[CALLS])
                        : choice->base.states[ANSWER] == GRAMMAR_DEAD)
            take_calls(choice, 0, choice->base.states[CALLS]);
        return;
    }
    for (size_t i = 0; at != NULL && asked->calls.form->at_start && i < before; i++)
        if (strchr(" \n\t\r", text->data[i]) == NULL)
            return;
    for (size_t i = before; at != NULL && i < text->size; i++)
        state = grammar_next(asked->calls.grammar, state, (uint8_t)text->data[i]);
    if (at != NULL && state != GRAMMAR_DEAD) /* otherwise no call, or not one of these tools: a text */
        take_calls(choice, before, state);
}

static bool is_white(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

/* The number of bytes of white space at the beginning of a text. */
static size_t white_bytes(const struct strbuf *text)
{
    size_t bytes = 0;

    while (bytes < text->size && is_white(text->data[bytes]))
        bytes++;
    return bytes;
}

static void drop(struct strbuf *text, size_t bytes)
{
    if (bytes > 0)
        memmove(text->data, text->data + bytes, text->size - bytes);
    text->size -= bytes;
}

/* Moves the unsent text up to </think> to the thought, without white space around it. */
static void move_thought(completion_choice *choice, bool is_complete)
{
    static const char mark[] = MESSAGES_THOUGHT_END;
    struct strbuf *text = &choice->base.unsent;
    const char *end;
    size_t bytes, kept;

    if (choice->thoughts.size + choice->thought.size == 0)
        drop(text, white_bytes(text));
    end = text->size > 0 ? memmem(text->data, text->size, mark, sizeof mark - 1) : NULL;
    bytes = end != NULL   ? (size_t)(end - text->data)
            : is_complete ? text->size
                          : text->size - text_choice_held_back(&choice->base, mark);
    for (kept = bytes; kept > 0 && is_white(text->data[kept - 1]);)
        kept--;
    if (kept > 0)
        strbuf_add(&choice->thought, text->data, kept);
    drop(text, end != NULL ? bytes + sizeof mark - 1 : is_complete ? bytes : kept);
    if (end != NULL)
        choice->thinking = THOUGHT_ENDED;
}

/* Moves what belongs to the text's thought from the unsent text to it. */
static void take_thought(completion_choice *choice, bool is_complete)
{
    static const char mark[] = MESSAGES_THOUGHT;
    struct strbuf *text = &choice->base.unsent;

    if (choice->thinking == THOUGHT_AHEAD) {
        const size_t blank = white_bytes(text), rest = text->size - blank;
        const size_t compared = rest < sizeof mark - 1 ? rest : sizeof mark - 1;

        if (compared > 0 && memcmp(text->data + blank, mark, compared) != 0) {
            choice->thinking = THOUGHT_NONE;
        } else if (compared == sizeof mark - 1) {
            drop(text, blank + compared);
            choice->thinking = THOUGHT_RUNS;
        }
    }
    if (choice->thinking == THOUGHT_RUNS)
        move_thought(choice, is_complete);
    if (choice->thinking == THOUGHT_ENDED) {
        drop(text, white_bytes(text));
        if (text->size > 0)
            choice->thinking = THOUGHT_NONE;
    }
}

/* Adds the text of a token. false: it is the end of the text. */
static bool add_token(completion_choice *choice, int64_t token)
{
    size_t bytes = 0;
    const char *text = text_model_bytes(choice->base.model, choice->base.marks, token, &bytes);

    if (choice->calling) {
        if (text != NULL)
            tool_reader_add(&choice->calls, text, bytes, call_seed(choice));
        return true;
    }
    if (text != NULL)
        strbuf_add(&choice->base.unsent, text, bytes);
    if (text_choice_find_stop(&choice->base)) {
        take_thought(choice, true);
        choice->base.states[CALLS] = GRAMMAR_DEAD; /* the rest of the text is no call */
        return false;
    }
    take_thought(choice, false);
    if (choice->thinking == THOUGHT_RUNS || choice->thinking == THOUGHT_ENDED)
        choice->thought_tokens = choice->base.token_count;
    if (may_call(choice))
        begin_calls(choice, false);
    return true;
}

/* The callbacks of decoding_text. */

static bool choose_token(decoding_text *decoding, const float *logits, size_t vocabulary, inlay_diag *diag)
{
    completion_choice *choice = (completion_choice *)decoding;
    const completion_request *asked = &choice->completion->asked;
    int64_t token;

    end_prompt(choice);
    if (asked->ends.max_tokens == 0) /* the reason is "length" */
        return false;
    token = text_choice_next(&choice->base, logits, vocabulary, diag);
    choice->reason = choice->base.may_end ? "stop" : "length";
    if (token < 0)
        return false;
    count_token(choice);
    choice->reason = "stop";
    if (text_choice_is_end(&choice->base, token)) {
        if (asked->echoes) /* clients that evaluate prompts leave out the last log probability */
            completion_log_token(choice, token, logits, vocabulary);
        return false;
    }
    text_choice_follow(&choice->base, token);
    completion_log_token(choice, token, logits, vocabulary);
    if (!add_token(choice, token))
        return false;
    choice->reason = "length";
    if (text_choice_is_full(&choice->base))
        return false;
    completion_emit_thought(choice);
    completion_emit(choice, choice->base.unsent.size - (choice->calling ? 0 : held_back(choice)), NULL);
    completion_emit_calls(choice);
    choice->reason = NULL;
    return !is_incomplete(choice);
}

static bool score_prompt(decoding_text *decoding, const float *logits, size_t first, size_t count, size_t words,
                         inlay_diag *diag)
{
    completion_choice *choice = (completion_choice *)decoding;

    if (choice->scored == 0)
        completion_log_prompt(choice, NULL, 0);
    for (size_t i = 0; i < count; i++)
        if (first + i + 1 == choice->scored && choice->scored < choice->base.prompt_count)
            completion_log_prompt(choice, logits + i * words, words);
    return !(choice->log.values.failed || choice->prompt_log.failed) ||
           no_memory(diag, "for the log probabilities") == INLAY_OK;
}

static int64_t guess_token(decoding_text *decoding, const float *logits, size_t vocabulary, uint32_t index)
{
    return text_choice_guess((text_choice *)decoding, logits, vocabulary, index);
}

static bool is_over(const decoding_text *decoding, inlay_diag *diag)
{
    struct completion *completion = ((const completion_choice *)decoding)->completion;
    bool is_unread;

    (void)pthread_mutex_lock(&completion->lock);
    is_unread = completion->events.is_unread;
    (void)pthread_mutex_unlock(&completion->lock);
    if (is_unread)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "the client does not read: more than 1 MiB of events wait for it, or max_inflight_bytes is "
                          "reached") != INLAY_OK;
    return text_jobs_is_over(&completion->exchange->request.job, diag);
}

static void end_choice(decoding_text *decoding, const inlay_diag *failure)
{
    completion_choice *choice = (completion_choice *)decoding;
    struct completion *completion = choice->completion;
    struct exchange *exchange = completion->exchange;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (failure == NULL && is_incomplete(choice)) {
        (void)no_memory(&diag, "for the text");
        failure = &diag;
    }
    take_thought(choice, true);
    if (completion->asked.form != NULL && may_call(choice) && choice->reason != NULL &&
        strcmp(choice->reason, "stop") == 0)
        begin_calls(choice, true);
    if (choice->calls.count > 0 && choice->reason != NULL && strcmp(choice->reason, "stop") == 0)
        choice->reason = "tool_calls";
    if (failure == NULL) {
        completion_emit_thought(choice);
        completion_emit_calls(choice);
        completion_emit(choice, choice->base.unsent.size, choice->reason != NULL ? choice->reason : "length");
    } else if (completion->failure.code == INLAY_OK) {
        completion->failure = *failure;
    }
    if (choice->reason == NULL)
        choice->reason = "length"; /* there was no memory for more tokens */
    exchange->request.compute_ns += decoding->compute_ns;
    exchange->request.run_rows =
        decoding->rows > exchange->request.run_rows ? decoding->rows : exchange->request.run_rows;
    if (failure != NULL)
        exchange->request.job.cancelled = true; /* its other texts end with their next step */
    INLAY_CHECK(completion->unfinished > 0);
    if (--completion->unfinished == 0)
        completion_reply(completion, completion->failure.code != INLAY_OK ? &completion->failure : NULL);
}

/* Prepares the generation of a choice. false: out of memory. */
static bool prepare_choice(struct completion *completion, uint32_t index)
{
    const completion_request *asked = &completion->asked;
    const input_text *prompt = &asked->prompt.list.texts[index / asked->candidates];
    completion_choice *choice = &completion->choices[index];
    text_choice *base = &choice->base;

    choice->completion = completion;
    base->decoding = (decoding_text){ .images = completion->images.spans,
                                      .image_count = completion->images.span_count,
                                      .adapter = completion->adapter.number,
                                      .like = prompt,
                                      .next = index + 1 < completion->choice_count ? &choice[1].base.decoding : NULL,
                                      .choose = choose_token,
                                      .is_over = is_over,
                                      .guess = guess_token,
                                      .end = end_choice };
    if ((asked->echoes && asked->logs.wanted) || asked->logs.prompt >= 0) {
        base->decoding.like = NULL;
        base->decoding.score = score_prompt;
    }
    base->model = completion->exchange->request.job.model->text;
    base->ends = &asked->ends;
    base->scratch = &completion->scratch;
    base->marks = asked->form != NULL || asked->calls.form != NULL ? completion->marks : NULL;
    base->sampler = asked->sampler;
    base->sampler.state = completion->seed + index;
    base->rules = base->model->generation.rules;
    base->rules.no_repeat = asked->no_repeat;
    base->banned = &asked->banned;
    choice->calls.form = asked->calls.form;
    choice->calling = asked->calls.grammar != NULL && asked->calls.tools.choice == TOOLS_REQUIRED;
    base->is_bound = choice->calling || asked->form != NULL;
    if (asked->chat && !asked->keeps_thoughts && !base->is_bound &&
        (completion->reply == NULL || completion->reply->write_thought != NULL))
        choice->thinking = completion->begins_thought ? THOUGHT_RUNS : THOUGHT_AHEAD;
    base->forms[ANSWER] = asked->form;
    base->forms[CALLS] = asked->calls.grammar;
    base->states[ANSWER] = asked->form != NULL && !choice->calling ? grammar_start(asked->form) : GRAMMAR_DEAD;
    base->states[CALLS] =
        asked->calls.grammar != NULL && base->is_bound ? grammar_start(asked->calls.grammar) : GRAMMAR_DEAD;
    return text_choice_begin(base, prompt->tokens, prompt->token_count);
}

/* The template for requests with tools; NULL: the model has none. */
static const char *tool_template_of(const text_model *model)
{
    return model->tool_template != NULL ? model->tool_template : model->chat_template;
}

/* Prepares the calls of the request's tools. */
static bool prepare_tools(struct exchange *exchange, struct completion *completion)
{
    completion_request *asked = &completion->asked;
    text_model *model = exchange->request.job.model->text;
    body_error error = { .parameter = "tools" };

    if (tool_template_of(model) == NULL)
        return true;
    /* Independent of the request's tools, since the model's index of tokens is made once. */
    completion->marks = text_model_tool_form(model);
    if (!tool_set_is_used(&asked->calls.tools))
        return true;
    asked->calls.form = completion->marks;
    if (asked->calls.form == NULL)
        (void)body_fail(&error, "tools: %s", model->tool_refusal.text);
    else
        asked->calls.grammar = tool_set_grammar(&asked->calls.tools, asked->calls.form, &error);
    if (asked->calls.grammar != NULL && asked->calls.form->in_messages)
        tool_set_warn(&asked->calls.tools,
                      "the model's chat template takes no tools; the first message describes them");
    if (asked->calls.grammar == NULL)
        body_refuse(exchange, &error);
    else
        (void)atomic_fetch_add_explicit(&exchange->request.job.model->metrics.stats->loose_tools,
                                        asked->calls.tools.loose_count, memory_order_relaxed);
    return asked->calls.grammar != NULL;
}

/* Renders the messages with the model's template, as the request's only prompt. */
static bool render_chat(struct completion *completion, char **out_text, inlay_diag *diag)
{
    const completion_request *asked = &completion->asked;
    input_list *prompts = &completion->asked.prompt.list;

    if (messages_render(completion->exchange->request.job.model->text, asked->dialog.messages,
                        asked->calls.form != NULL ? asked->calls.tools.list : NULL, asked->dialog.variables,
                        asked->dialog.continues, out_text, diag) != INLAY_OK)
        return false;
    if (!LIST_GROW(prompts->texts, 0))
        return no_memory(diag, "for the prompt") == INLAY_OK;
    prompts->texts[prompts->count++] = (input_text){ .text = *out_text };
    return true;
}

static bool refuse_large(body_error *error)
{
    error->status = HTTP_TOO_MANY_REQUESTS;
    return body_fail(error, REQUEST_IS_LARGE);
}

/* Makes the tokens of the prompt of messages with images, whose files and rows count in max_inflight_bytes. */
static bool read_images(struct completion *completion, input_text *prompt, body_error *error)
{
    const completion_request *asked = &completion->asked;
    struct request *request = &completion->exchange->request;
    const struct model *model = request->job.model;
    uint64_t files = 0, rows = 0;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (model->vision.encoder == NULL)
        return body_fail(error, "the messages have images; the model takes texts only, as it has no vision part");
    for (uint32_t i = 0; i < asked->images.count; i++)
        files += asked->images.list[i].bytes;
    if (strlen(prompt->text) > model->text->most_bytes)
        return body_fail_length(error, "the prompt", strlen(prompt->text), model->text->most_bytes);
    if (!request_count(request, files))
        return refuse_large(error);
    if (image_prompt_read(model->vision.encoder, model->text->tokenizer, prompt->text, asked->images.list,
                          asked->images.count, &completion->images, &diag) != INLAY_OK)
        return body_fail(error, "%s", diag.text);
    for (uint32_t i = 0; i < completion->images.span_count; i++)
        rows += completion->images.spans[i].count;
    if (!request_count(request, rows * (uint64_t)model->text->decode.image_width * sizeof(float)))
        return refuse_large(error);
    prompt->tokens = completion->images.tokens; /* now owned by the prompt */
    prompt->token_count = completion->images.count;
    completion->images.tokens = NULL;
    return input_text_check(prompt, model->text, true, "the prompt", error);
}

/* Makes the tokens of a prompt. */
static bool read_prompt(struct completion *completion, input_text *prompt, body_error *error)
{
    const completion_request *asked = &completion->asked;
    const text_model *model = completion->exchange->request.job.model->text;

    if (asked->images.count > 0)
        return read_images(completion, prompt, error);
    return (asked->prompt.suffix != NULL
                ? infill_tokenize(&asked->prompt.infill, model, prompt, asked->prompt.suffix, error)
                : input_text_tokenize(prompt, model, !asked->chat, "the prompt", error)) &&
           input_text_check(prompt, model, true, "the prompt", error);
}

/* Prepares prompts that have a suffix. */
static bool prepare_infill(struct exchange *exchange, struct completion *completion)
{
    completion_request *asked = &completion->asked;
    const text_model *model = exchange->request.job.model->text;

    if (asked->prompt.suffix == NULL)
        return true;
    if (!infill_form_of(model, &asked->prompt.infill)) {
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST,
                                "suffix: the model's tokenizer has no tokens for a text between two others, such as "
                                "<|fim_prefix|>",
                                "suffix", NULL);
        return false;
    }
    for (int i = 0; i < INFILL_ENDS && asked->prompt.infill.ends[i] != NULL; i++) {
        const int64_t token = tokenizer_id(model->tokenizer, asked->prompt.infill.ends[i]);

        if (token >= 0)
            asked->stops.tokens[asked->ends.stop_token_count++] = token;
    }
    return true;
}

/* Whether the model has the tokens that the request names. */
static bool check_tokens(struct exchange *exchange, const struct completion *completion)
{
    const completion_request *asked = &completion->asked;
    const size_t bias_count = asked->sampler.bias_count, count = bias_count + asked->ends.stop_token_count;
    char text[100];
    bool special;
    size_t bytes;

    for (size_t i = 0; i < count; i++) {
        const int64_t token = i < bias_count ? asked->bias[i].token : asked->stops.tokens[i - bias_count];
        const char *parameter = i < bias_count ? "logit_bias" : "stop_token_ids";

        if (tokenizer_bytes(exchange->request.job.model->text->tokenizer, token, &bytes, &special) != NULL)
            continue;
        (void)snprintf(text, sizeof text, "%s: the model has no token %lld", parameter, (long long)token);
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST, text, parameter, NULL);
        return false;
    }
    return true;
}

static bool read_prompts(struct exchange *exchange, struct completion *completion)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    body_error error = { .code = NULL };
    char *rendered = NULL;
    bool good = !completion->asked.chat || render_chat(completion, &rendered, &diag);

    if (!good)
        exchange_fail_diag(exchange, &diag);
    completion->begins_thought = rendered != NULL && messages_begin_thought(rendered);
    for (uint32_t i = 0; good && i < completion->asked.prompt.list.count; i++) {
        input_text *prompt = &completion->asked.prompt.list.texts[i];

        good = read_prompt(completion, prompt, &error);
        if (!good)
            exchange_fail_parameter(exchange, error.status != 0 ? error.status : HTTP_BAD_REQUEST, error.text,
                                    completion->asked.prompt.name, error.code);
        completion->tokens.prompt += prompt->token_count;
        prompt->text = NULL; /* the tokens are used from here on */
    }
    free(rendered);
    return good;
}

/* Finds the adapter that the request names. */
static bool find_adapter(struct exchange *exchange, struct completion *completion)
{
    const struct model *model = exchange->request.job.model;

    completion->adapter.number = -1;
    if (completion->adapter.name == NULL)
        return true;
    for (uint32_t i = 0; i < model->decoding.adapter_count && completion->adapter.number < 0; i++)
        if (strcmp(model->decoding.adapters[i], completion->adapter.name) == 0)
            completion->adapter.number = i;
    if (completion->adapter.number < 0)
        models_fail_unknown(exchange);
    return completion->adapter.number >= 0;
}

/* Takes what the request leaves open from the model's generation_config.json. */
static void take_defaults(completion_request *request, const text_model *model)
{
    struct sampler *asked = &request->sampler;
    const struct sampler *defaults = &model->generation.sampler;
    const struct {
        float *value, standard;
    } numbers[] = { { &asked->temperature, defaults->temperature },
                    { &asked->top_p, defaults->top_p },
                    { &asked->min_p, defaults->min_p },
                    { &asked->typical_p, defaults->typical_p },
                    { &asked->epsilon_cutoff, defaults->epsilon_cutoff },
                    { &asked->eta_cutoff, defaults->eta_cutoff },
                    { &asked->penalty, defaults->penalty } };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (isnan(*numbers[i].value))
            *numbers[i].value = numbers[i].standard;
    if (asked->top_k == OPEN_COUNT)
        asked->top_k = defaults->top_k;
    asked->prompt_penalty = defaults->prompt_penalty;
    if (request->no_repeat == OPEN_COUNT)
        request->no_repeat = model->generation.rules.no_repeat;
    if (!request->has_min_tokens)
        request->ends.min_tokens = model->generation.rules.min_generated;
}

/* Adds the tokens of a text that must not occur. */
static bool ban(completion_request *asked, const text_model *model, const char *text)
{
    int64_t *tokens = NULL;
    size_t count = 0;
    const bool good = tokenizer_encode(model->tokenizer, text, false, &tokens, &count) &&
                      (count == 0 || sequence_add(&asked->banned, tokens, (uint32_t)count, -INFINITY));

    free(tokens);
    return good;
}

/* Finds the tokens of bad_words: at the beginning of a word, and elsewhere. false: out of memory. */
static bool find_bad_words(completion_request *asked, const text_model *model)
{
    for (size_t i = 0; i < json_array_size(asked->bad_words); i++) {
        const char *word = json_string_value(json_array_get(asked->bad_words, i));
        struct strbuf spaced = { 0 };
        bool good = ban(asked, model, word);

        strbuf_text(&spaced, " ");
        strbuf_add(&spaced, word, strlen(word) + 1);
        good = good && !spaced.failed && ban(asked, model, spaced.data);
        strbuf_deinit(&spaced);
        if (!good)
            return false;
    }
    return true;
}

/* Gives the samplers the characters of tokens, because some characters end a repetition. false: out of memory. */
static bool find_characters(struct completion *completion)
{
    struct sampler *sampler = &completion->asked.sampler;
    text_model *text = completion->exchange->request.job.model->text;

    if (sampler->dry.multiplier == 0)
        return true;
    if (!text_model_characters(text))
        return false;
    sampler->dry.characters = text->characters;
    sampler->dry.character_count = tokenizer_count(text->tokenizer);
    return true;
}

static bool begin(struct exchange *exchange, struct completion *completion)
{
    static atomic_uint_fast64_t ids;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t choices;
    bool good;

    completion->asked.ends.stops = completion->asked.stops.texts;
    completion->asked.ends.stop_tokens = completion->asked.stops.tokens;
    if (exchange->request.job.model->text == NULL || exchange->request.job.model->text->decode.logits == INLAY_NONE) {
        char why[240];
        const text_source source = text_source_of(exchange->request.job.model);

        text_model_explain(&source, why, sizeof why);
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST, why, "model", NULL);
        return false;
    }
    take_defaults(&completion->asked, exchange->request.job.model->text);
    if (!find_adapter(exchange, completion) || !check_tokens(exchange, completion) ||
        !prepare_tools(exchange, completion) || !prepare_infill(exchange, completion) ||
        !read_prompts(exchange, completion))
        return false;
    if (!request_goes_on(&exchange->request, &diag)) {
        exchange_fail_diag(exchange, &diag);
        return false;
    }
    choices = completion->asked.prompt.list.count * completion->asked.candidates;
    completion->choices = calloc(choices, sizeof *completion->choices);
    good = completion->choices != NULL && find_characters(completion) &&
           find_bad_words(&completion->asked, exchange->request.job.model->text);
    completion->choice_count = completion->choices != NULL ? choices : 0;
    completion->id = atomic_fetch_add(&ids, 1) + 1;
    completion->seed = completion->asked.seeded ? completion->asked.sampler.state : clock_ns() ^ completion->id;
    completion->unfinished = completion->choice_count;
    for (uint32_t i = 0; good && i < completion->choice_count; i++)
        good = prepare_choice(completion, i);
    if (!good || ((completion->asked.form != NULL || completion->asked.calls.grammar != NULL) &&
                  !text_model_index(exchange->request.job.model->text))) {
        (void)no_memory(&diag, "for the text");
        exchange_fail_diag(exchange, &diag);
        return false;
    }
    return true;
}

/* Generates the text with job.model. If the exchange is suspended already, because it waited for its model, it is
 * resumed when there is something to send. */
static void generate(struct exchange *exchange)
{
    struct completion *completion = exchange->completion;
    bool was_suspended = exchange->request.suspended;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (!begin(exchange, completion)) {
        exchange_drop(exchange);
        if (was_suspended)
            request_wake(&exchange->request);
        return;
    }
    completion->done = false;
    completion->streams = completion->asked.streams;
    if (completion->streams) {
        exchange->code = HTTP_OK;
        exchange->type = completion->reply != NULL && completion->reply->stream_type != NULL
                             ? completion->reply->stream_type
                             : "text/event-stream";
    }
    if (was_suspended || !completion->streams)
        request_suspend(&exchange->request);
    completion->waiting = was_suspended && completion->streams;
    watch_add(exchange->request.server->watch, &exchange->request);
    if (text_jobs_add(exchange->request.server->sched, exchange->request.job.model,
                      &completion->choices[0].base.decoding, &diag) == INLAY_OK)
        return;
    watch_remove(exchange->request.server->watch, &exchange->request);
    completion->done = true;
    completion->streams = completion->waiting = false;
    exchange_fail_diag(exchange, &diag);
    if (exchange->request.suspended)
        request_wake(&exchange->request);
}

/* The model that the request waited for is loaded, or its load failed. */
static void model_loaded(void *user, const inlay_diag *failure)
{
    exchange_model_loaded(user, failure, generate);
}

static const request_form *form_of(route_kind kind)
{
    switch (kind) {
    case ROUTE_CHAT:
        return &form_chat;
    case ROUTE_RESPONSES:
        return &form_response;
    case ROUTE_MESSAGES:
        return &form_anthropic;
    case ROUTE_INFILL:
        return &form_infill;
    case ROUTE_LLAMA_COMPLETION:
        return &form_llama;
    case ROUTE_GENERATE:
        return &form_generate;
    case ROUTE_GENERATE_STREAM:
        return &form_generate_stream;
    case ROUTE_OLLAMA_CHAT:
        return &form_ollama_chat;
    case ROUTE_OLLAMA_GENERATE:
        return &form_ollama_generate;
    default:
        return &form_completion;
    }
}

void answer_completions(struct exchange *exchange)
{
    struct completion *completion = calloc(1, sizeof *completion);
    const request_form *form = form_of(exchange->route.kind);
    body_error error;

    if (completion == NULL) {
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the text");
        return;
    }
    *completion = (struct completion){ .exchange = exchange, .reply = form->reply };
    (void)pthread_mutex_init(&completion->lock, NULL);
    completion->done = true; /* until the first run is queued */
    exchange->completion = completion;
    exchange->release = release;
    if (!completion_request_read(&completion->asked, form, exchange, &error)) {
        body_refuse(exchange, &error);
        exchange_drop(exchange);
        return;
    }
    if (models_acquire(exchange, completion->asked.model, &completion->adapter.name, model_loaded) == ACQUIRED_MODEL)
        generate(exchange);
}
