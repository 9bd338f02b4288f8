/* serve/routes/answers.h - the routes: each sets code and reply of its request, or suspends it. */
#ifndef SERVE_ANSWERS_H
#define SERVE_ANSWERS_H
#include "serve/exchange/exchange.h"

void answer_infer(struct exchange *exchange); /* infer_route.c */
/* info_route.c */
void answer_live(struct exchange *exchange);
void answer_ready(struct exchange *exchange);
void answer_health(struct exchange *exchange);
void answer_version(struct exchange *exchange);
void answer_server(struct exchange *exchange);
void answer_model(struct exchange *exchange);
void answer_model_config(struct exchange *exchange);
void answer_model_ready(struct exchange *exchange);
void answer_index(struct exchange *exchange);
void answer_rollout(struct exchange *exchange); /* rollout_route.c */
void answer_stats(struct exchange *exchange);   /* stats_route.c */
void answer_metrics(struct exchange *exchange); /* metrics_route.c */
void answer_page(struct exchange *exchange);    /* page_route.c */
void answer_openapi(struct exchange *exchange); /* openapi_route.c */
/* settings_route.c */
void answer_trace(struct exchange *exchange);
void answer_logging(struct exchange *exchange);
/* repository_route.c */
void answer_repository(struct exchange *exchange);
void answer_adapter(struct exchange *exchange);
/* shared_memory_route.c */
void answer_shared_memory_status(struct exchange *exchange);
void answer_shared_memory_register(struct exchange *exchange);
void answer_shared_memory_unregister(struct exchange *exchange);
void answer_cuda_unregister(struct exchange *exchange);
#endif
