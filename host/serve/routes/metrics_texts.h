/* serve/routes/metrics_texts.h - the metrics of language models in the reply of GET /metrics, under the names of vLLM,
 * which the protocol of the Gateway API Inference Extension and other routers read. */
#ifndef SERVE_METRICS_TEXTS_H
#define SERVE_METRICS_TEXTS_H
#include "base/strbuf.h"
#include "serve/base/board.h"
#include "serve/model/model.h"

/* The loaded models, referenced while the reply is written: the format needs all series of a metric together. */
struct held_models {
    struct held_model {
        struct model *model;
        board_model sum; /* of all processes */
    } * models;          /* [count] */
    uint32_t count;
    bool failed; /* out of memory */
};

void metrics_write_texts(struct strbuf *to, const struct held_models *held);
#endif
