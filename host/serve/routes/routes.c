#include "serve/routes/routes.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "serve/routes/answers.h"
#include "serve/chat/completion.h"
#include "serve/chat/embedding.h"
#include "serve/chat/models.h"
#include "serve/chat/tokenize.h"
#include "serve/chat/transcription.h"
#include "serve/exchange/prepare.h"

/* What answers each kind of route. */
static void (*const answers[ROUTE_COUNT])(struct exchange *exchange) = {
    [ROUTE_PAGE] = answer_page,
    [ROUTE_METRICS] = answer_metrics,
    [ROUTE_LIVE] = answer_live,
    [ROUTE_READY] = answer_ready,
    [ROUTE_HEALTH] = answer_health,
    [ROUTE_VERSION] = answer_version,
    [ROUTE_OPENAPI] = answer_openapi,
    [ROUTE_SERVER] = answer_server,
    [ROUTE_MODEL] = answer_model,
    [ROUTE_MODEL_CONFIG] = answer_model_config,
    [ROUTE_MODEL_READY] = answer_model_ready,
    [ROUTE_INFER] = answer_infer,
    [ROUTE_ROLLOUT] = answer_rollout,
    [ROUTE_STATS] = answer_stats,
    [ROUTE_INDEX] = answer_index,
    [ROUTE_LOAD] = answer_repository,
    [ROUTE_UNLOAD] = answer_repository,
    [ROUTE_LOAD_ADAPTER] = answer_adapter,
    [ROUTE_UNLOAD_ADAPTER] = answer_adapter,
    [ROUTE_COMPLETIONS] = answer_completions,
    [ROUTE_CHAT] = answer_completions,
    [ROUTE_RESPONSES] = answer_completions,
    [ROUTE_MESSAGES] = answer_completions,
    [ROUTE_INFILL] = answer_completions,
    [ROUTE_LLAMA_COMPLETION] = answer_completions,
    [ROUTE_OLLAMA_CHAT] = answer_completions,
    [ROUTE_OLLAMA_GENERATE] = answer_completions,
    [ROUTE_OLLAMA_TAGS] = answer_tags,
    [ROUTE_GENERATE] = answer_completions,
    [ROUTE_GENERATE_STREAM] = answer_completions,
    [ROUTE_EMBEDDINGS] = answer_embeddings,
    [ROUTE_RERANK] = answer_embeddings,
    [ROUTE_SCORE] = answer_embeddings,
    [ROUTE_TRANSCRIPTIONS] = answer_transcriptions,
    [ROUTE_TRANSLATIONS] = answer_transcriptions,
    [ROUTE_TOKENIZE] = answer_tokens,
    [ROUTE_DETOKENIZE] = answer_tokens,
    [ROUTE_APPLY_TEMPLATE] = answer_tokens,
    [ROUTE_SLOTS] = answer_slots,
    [ROUTE_PROPS] = answer_props,
    [ROUTE_MODELS] = answer_models,
    [ROUTE_TRACE] = answer_trace,
    [ROUTE_LOGGING] = answer_logging,
    [ROUTE_SHARED_STATUS] = answer_shared_memory_status,
    [ROUTE_SHARED_REGISTER] = answer_shared_memory_register,
    [ROUTE_SHARED_UNREGISTER] = answer_shared_memory_unregister,
    [ROUTE_CUDA_UNREGISTER] = answer_cuda_unregister,
};

static void answer(struct exchange *exchange)
{
    exchange_expand(exchange);
    (void)atomic_fetch_add_explicit(&exchange->request.server->counts->moved_bytes, exchange->moved_bytes,
                                    memory_order_relaxed);
    exchange->moved_bytes = 0;
    INLAY_CHECK(answers[exchange->route.kind] != NULL);
    if (exchange->code == 0)
        answers[exchange->route.kind](exchange);
}

static void prepare(struct request *request, const inlay_diag *failure)
{
    struct exchange *exchange = exchange_of(&request->task);

    if (failure != NULL)
        exchange_fail_diag(exchange, failure);
    else
        answer(exchange);
}

/* Whether another thread answers the request, because that may take long. */
static bool takes_long(const struct exchange *exchange)
{
    const bool is_coded = exchange->body_coding != CODING_IDENTITY;

    return route_reads_texts(exchange->route.kind) || route_reads_sounds(exchange->route.kind) ||
           prepare_is_needed(is_coded || exchange->body_bytes < exchange->json_bytes ? exchange->body_bytes
                                                                                     : exchange->json_bytes,
                             is_coded);
}

bool routes_run(struct exchange *exchange)
{
    exchange->request.received_ns = clock_ns();
    if (exchange->code == 0 && takes_long(exchange)) {
        prepare_submit(exchange->request.server->prepare, &exchange->request,
                       prepare_is_large(exchange->body_bytes, exchange->body_coding != CODING_IDENTITY), prepare);
    } else if (exchange->code == 0) {
        answer(exchange);
    } else if (exchange->delay_ms > 0 &&
               front_delay(&exchange->request.task, clock_ns() + exchange->delay_ms * UINT64_C(1000000))) {
        request_suspend(&exchange->request);
    }
    return !exchange->request.suspended;
}
