/*
 * What logging costs a program: bursts of events or of calls, on request.
 *
 *   logging text FILE          each event is a line of text: local time, formatted fields, a flush
 *   logging lttng              each event is an LTTng tracepoint (built with -DLTTNG)
 *   logging calls FILE         pwrite and pread of 4 KiB
 *   logging access FILE BYTES RECORD [LOG]
 *                              writes and reads FILE by records, in order and at random;
 *                              each call is a line of text in LOG, if that is given
 *
 * Each line on stdin is a number of events, or a seed; each is answered by one line of figures.
 * `text` and `lttng` answer ticks and nanoseconds of the burst; `calls` the nanoseconds of
 * processor time of the pwrites and of the preads; `access` the seconds of write, read, random read
 * and random write, then the seconds of processor time of each. Ends with its input. Exit codes: 0 done, 2 could not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The fields of a record of 64 bytes. */
struct event {
	uint64_t start, offset, request, seq;
	uint32_t took, asked, file, thread, near;
	int32_t result;
	uint16_t flags, peer, depth;
	uint8_t op, layer;
};

#ifdef LTTNG
#define TRACEPOINT_DEFINE
#define TRACEPOINT_CREATE_PROBES
#include "logging_lttng.h"
#endif

static void fail(const char *what)
{
	fprintf(stderr, "logging: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t now;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
	return now;
#else
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
#endif
}

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The next number to do; 0 at the end of the input. */
static uint64_t next_order(void)
{
	char line[64];
	if (!fgets(line, sizeof line, stdin))
		return 0;
	return strtoull(line, NULL, 10);
}

static struct event event(uint64_t number)
{
	return (struct event){
		.offset = number * 4096, .request = number, .seq = number, .asked = 4096, .file = 3,
		.thread = 1, .near = 4096, .result = 4096, .flags = 1, .op = 5,
	};
}

/* The steps of a file system's debug log: the time of day, made local, made text, then the fields,
 * then one write. */
static void log_line(FILE *log, const struct event *event)
{
	char line[1024];
	struct timeval now;
	gettimeofday(&now, NULL);
	time_t second = now.tv_sec;
	size_t used = strftime(line, sizeof line, "[D %H:%M:%S", localtime(&second));
	used += (size_t)snprintf(line + used, sizeof line - used, ".%06ld] ", (long)now.tv_usec);
	snprintf(line + used, sizeof line - used,
		"op %u layer %u flags %u file %u thread %u offset %" PRIu64 " asked %u result %d "
		"took %u request %" PRIu64 " near %u peer %u depth %u seq %" PRIu64 "\n",
		event->op, event->layer, event->flags, event->file, event->thread, event->offset,
		event->asked, event->result, event->took, event->request, event->near, event->peer,
		event->depth, event->seq);
	fprintf(log, "%s", line);
	fflush(log);
}

static FILE *open_log(const char *path)
{
	FILE *log = fopen(path, "w");
	if (!log)
		fail(path);
	return log;
}

typedef void burst(uint64_t count, FILE *log);

static void text_burst(uint64_t count, FILE *log)
{
	for (uint64_t number = 1; number <= count; number++) {
		struct event done = event(number);
		done.start = ticks();
		done.took = (uint32_t)(ticks() - done.start);
		log_line(log, &done);
	}
	rewind(log);
}

#ifdef LTTNG
static void lttng_burst(uint64_t count, FILE *log)
{
	(void)log;
	for (uint64_t number = 1; number <= count; number++) {
		struct event done = event(number);
		/* The tracer reads the clock for the end itself. */
		done.start = ticks();
		tracepoint(hearth_bench, io, &done);
	}
}
#endif

static void serve_bursts(burst *run, FILE *log)
{
	uint64_t count;
	printf("ready\n");
	fflush(stdout);
	while ((count = next_order())) {
		uint64_t from = nanoseconds(CLOCK_MONOTONIC), first = ticks();
		run(count, log);
		uint64_t last = ticks(), to = nanoseconds(CLOCK_MONOTONIC);
		printf("%" PRIu64 " %" PRIu64 "\n", last - first, to - from);
		fflush(stdout);
	}
}

/* 4 KiB at places that wander over 1 MiB, which every cache holds. */
static void calls(const char *path)
{
	/* Where in a page it lies would be the copy's cost, not the call's. */
	static _Alignas(4096) char buffer[4096];
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		fail(path);
	uint64_t count;
	printf("ready\n");
	fflush(stdout);
	while ((count = next_order())) {
		uint64_t from = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
		for (uint64_t number = 0; number < count; number++)
			if (pwrite(fd, buffer, sizeof buffer, (off_t)(number * 37 % 256 * 4096)) != 4096)
				fail("pwrite");
		uint64_t written = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
		for (uint64_t number = 0; number < count; number++)
			if (pread(fd, buffer, sizeof buffer, (off_t)(number * 37 % 256 * 4096)) != 4096)
				fail("pread");
		uint64_t read = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
		printf("%" PRIu64 " %" PRIu64 "\n", written - from, read - written);
		fflush(stdout);
	}
}

/* One pass over a file by records. */
struct pass {
	const char *path;
	FILE *log;
	char *buffer;
	uint64_t records, record, seed;
};

typedef ssize_t transfer(int, char *, size_t, off_t);

static ssize_t put(int fd, char *buffer, size_t size, off_t offset)
{
	return pwrite(fd, buffer, size, offset);
}

static ssize_t get(int fd, char *buffer, size_t size, off_t offset)
{
	return pread(fd, buffer, size, offset);
}

struct seconds {
	double passed, busy;
};

static struct seconds run_pass(const struct pass *pass, transfer *move, int at_random)
{
	uint64_t state = pass->seed * 0x9e3779b97f4a7c15 | 1;
	uint64_t from = nanoseconds(CLOCK_MONOTONIC), idle = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	int fd = open(pass->path, O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		fail(pass->path);
	for (uint64_t number = 0; number < pass->records; number++) {
		state ^= state << 13, state ^= state >> 7, state ^= state << 17;
		uint64_t place = at_random ? state % pass->records : number;
		struct event done = event(number + 1);
		done.start = ticks();
		done.offset = place * pass->record;
		done.result = (int32_t)move(fd, pass->buffer, pass->record, (off_t)done.offset);
		done.took = (uint32_t)(ticks() - done.start);
		if (done.result != (int32_t)pass->record)
			fail("a call did not do all it was asked to");
		if (pass->log)
			log_line(pass->log, &done);
	}
	if (close(fd))
		fail("close");
	uint64_t to = nanoseconds(CLOCK_MONOTONIC), busy = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	return (struct seconds){(double)(to - from) / 1e9, (double)(busy - idle) / 1e9};
}

static void access_file(int argc, char **argv)
{
	struct pass pass = {.path = argv[2], .record = strtoull(argv[4], NULL, 10)};
	pass.records = strtoull(argv[3], NULL, 10) / pass.record;
	pass.log = argc > 5 ? open_log(argv[5]) : NULL;
	pass.buffer = malloc(pass.record);
	if (!pass.buffer || !pass.records)
		fail("the file has no record, or memory is short");
	memset(pass.buffer, 7, pass.record);
	printf("ready\n");
	fflush(stdout);
	while ((pass.seed = next_order())) {
		struct seconds write = run_pass(&pass, put, 0), read = run_pass(&pass, get, 0);
		struct seconds random_read = run_pass(&pass, get, 1);
		struct seconds random_write = run_pass(&pass, put, 1);
		printf("%.9f %.9f %.9f %.9f ", write.passed, read.passed, random_read.passed,
			random_write.passed);
		printf("%.9f %.9f %.9f %.9f\n", write.busy, read.busy, random_read.busy,
			random_write.busy);
		fflush(stdout);
		if (pass.log)
			rewind(pass.log);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "text") && argc == 3) {
		serve_bursts(text_burst, open_log(argv[2]));
#ifdef LTTNG
	} else if (!strcmp(mode, "lttng") && argc == 2) {
		serve_bursts(lttng_burst, NULL);
#endif
	} else if (!strcmp(mode, "calls") && argc == 3) {
		calls(argv[2]);
	} else if (!strcmp(mode, "access") && argc >= 5) {
		access_file(argc, argv);
	} else {
		fprintf(stderr, "logging: see the head of logging.c\n");
		return 2;
	}
	return 0;
}
