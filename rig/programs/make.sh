# A project of 60 C files built by every host: archives, `rm x; ar rc x`, a program that runs.
# quick
# needs: make cc ar

prepare() {
    local k
    mkdir src
    for k in $(seq 60); do
        printf 'int f%d(int x) { return x + %d; }\n' "$k" "$k" >"src/f$k.c"
    done
    {
        for k in $(seq 60); do echo "int f$k(int);"; done
        printf '#include <stdio.h>\nint main(void) { int x = 0;\n'
        for k in $(seq 60); do echo "x = f$k(x);"; done
        printf 'printf("%%d\\n", x); return 0; }\n'
    } >src/main.c
    cat >src/Makefile <<'MK'
OBJS = $(patsubst %,f%.o,$(shell seq 60))
prog: main.o libf.a ; $(CC) -o $@ main.o -L. -lf
libf.a: $(OBJS) ; rm -f $@ && ar rcD $@ $(OBJS) && ranlib -D $@
%.o: %.c ; $(CC) -O0 -c -o $@ $<
clean: ; rm -f *.o libf.a prog
MK
}
work() {
    cp -r src "own$host"; cd "own$host"
    make -s -j2 prog; ./prog; rm libf.a; make -s prog; make -s clean; make -s -j2 prog; make -q prog
}
check() { each_host one; }
one() { "own$1/prog"; sha256sum <"own$1/libf.a"; nm "own$1/libf.a" | grep -c ' T '; }
