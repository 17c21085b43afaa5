/* The LTTng tracepoint of logging.c: the same 64 bytes as a record of Hearth. */
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER hearth_bench

#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "./logging_lttng.h"

#if !defined(LOGGING_LTTNG_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define LOGGING_LTTNG_H

#include <lttng/tracepoint.h>

TRACEPOINT_EVENT(hearth_bench, io,
	TP_ARGS(const struct event *, event),
	TP_FIELDS(
		ctf_integer(uint64_t, start, event->start)
		ctf_integer(uint32_t, took, event->took)
		ctf_integer(uint8_t, op, event->op)
		ctf_integer(uint8_t, layer, event->layer)
		ctf_integer(uint16_t, flags, event->flags)
		ctf_integer(uint64_t, offset, event->offset)
		ctf_integer(uint32_t, asked, event->asked)
		ctf_integer(int32_t, result, event->result)
		ctf_integer(uint32_t, file, event->file)
		ctf_integer(uint32_t, thread, event->thread)
		ctf_integer(uint64_t, request, event->request)
		ctf_integer(uint32_t, near, event->near)
		ctf_integer(uint16_t, peer, event->peer)
		ctf_integer(uint16_t, depth, event->depth)
		ctf_integer(uint64_t, seq, event->seq)
	)
)

#endif

#include <lttng/tracepoint-event.h>
