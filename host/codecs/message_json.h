/* codecs/message_json.h - writes a message of protobuf as JSON, as Triton's REST does: fields have the names of
 * the schema, numbers are numbers, enumerations are names, maps are objects, and fields of simple types are always
 * written. */
#ifndef CODECS_MESSAGE_JSON_H
#define CODECS_MESSAGE_JSON_H
#include "base/strbuf.h"
#include <protobuf-c/protobuf-c.h>

void message_json(struct strbuf *to, const ProtobufCMessage *message);
#endif
