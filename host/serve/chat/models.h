/* serve/chat/models.h - the models of OpenAI's API: GET /v1/models and /v1/models/NAME, and the model of a request;
 * what llama-server says of its only model. */
#ifndef SERVE_MODELS_H
#define SERVE_MODELS_H
#include "serve/exchange/exchange.h"
#include "serve/exchange/request_infer.h"
#include "serve/repository/folder.h"
#include "texts/model/purpose.h"

enum { MODELS_NAME_BYTES = FOLDER_MAX_NAME + 1 };

void answer_models(struct exchange *exchange);
void answer_slots(struct exchange *exchange);
void answer_props(struct exchange *exchange);
/* GET /api/tags, in ollama_reply.c. */
void answer_tags(struct exchange *exchange);
/* Writes the name of the only model, loaded or not, that has one of the purposes (bits of enum text_purpose), if no
 * model has the name `asked` (NULL: none was named), which may be NAME:ADAPTER. false: such a model exists, or none or
 * several have such a purpose. */
bool models_stand_in(struct repository *repository, const char *asked, uint32_t purposes, char name[MODELS_NAME_BYTES]);
/* Returns the loaded model for texts with this name, or the model that stands in for it, and makes it the request's
 * model; NULL: the reply says why there is no model. */
struct text_model *models_find_text(struct exchange *exchange, const char *name, uint32_t purposes);

/* Finds the latest version of the model NAME as request_acquire() does, which gets loaded() for the exchange;
 * ACQUIRED_NOTHING: the reply says why, and the exchange is dropped. With out_adapter, name may be NAME:ADAPTER. */
acquired models_acquire(struct exchange *exchange, const char *name, const char **out_adapter,
                        void (*loaded)(void *user, const inlay_diag *failure));
/* The reply to a request whose model or adapter does not exist. */
void models_fail_unknown(struct exchange *exchange);
#endif
