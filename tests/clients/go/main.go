// Gomemcache, unmodified, against a running cluster: every method of its client.
//
// Prints `ok` and `not ok` lines and a last line `N passed, N failed`.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// The bound only ends a run in which the expected never happens.
const expirySecondsMax = 20

var passed, failed int

func run(name string, test func(c *memcache.Client) error) {
	c := memcache.New(os.Getenv("SHORTTAIL_MEMCACHED"))
	c.Timeout = time.Minute
	if err := test(c); err != nil {
		failed++
		fmt.Printf("not ok %s: %v\n", name, err)
		return
	}
	passed++
	fmt.Printf("ok %s\n", name)
}

// first returns the first error of a sequence that was evaluated in order.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func is(got, want error) error {
	if !errors.Is(got, want) {
		return fmt.Errorf("wanted error %v, got %v", want, got)
	}
	return nil
}

func holds(c *memcache.Client, key string, want []byte, flags uint32) error {
	item, err := c.Get(key)
	if err != nil {
		return fmt.Errorf("get %s: %w", key, err)
	}
	if !bytes.Equal(item.Value, want) || item.Flags != flags {
		return fmt.Errorf("%s: wanted %d bytes and flags %d, got %d and %d", key, len(want), flags, len(item.Value), item.Flags)
	}
	return nil
}

func misses(c *memcache.Client, key string) error {
	_, err := c.Get(key)
	return is(err, memcache.ErrCacheMiss)
}

func item(key, value string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(value), Flags: 123}
}

func everyByte(size int) []byte {
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(i)
	}
	return value
}

func setGetDelete(c *memcache.Client) error {
	return first(
		c.Set(item("go:a", "one")),
		holds(c, "go:a", []byte("one"), 123),
		c.Delete("go:a"),
		is(c.Delete("go:a"), memcache.ErrCacheMiss),
		misses(c, "go:a"),
	)
}

func conditional(c *memcache.Client) error {
	_ = c.Delete("go:c")
	return first(
		is(c.Replace(item("go:c", "0")), memcache.ErrNotStored),
		is(c.Append(item("go:c", "0")), memcache.ErrNotStored),
		is(c.Prepend(item("go:c", "0")), memcache.ErrNotStored),
		c.Add(item("go:c", "1")),
		is(c.Add(item("go:c", "2")), memcache.ErrNotStored),
		c.Replace(item("go:c", "mid")),
		c.Append(item("go:c", ">")),
		c.Prepend(item("go:c", "<")),
		holds(c, "go:c", []byte("<mid>"), 123),
	)
}

func compareAndSwap(c *memcache.Client) error {
	if err := c.Set(item("go:cas", "old")); err != nil {
		return err
	}
	mine, err := c.Get("go:cas")
	if err != nil {
		return err
	}
	other, err := c.Get("go:cas")
	if err != nil {
		return err
	}
	mine.Value, other.Value = []byte("mine"), []byte("other")
	return first(
		c.CompareAndSwap(mine),
		is(c.CompareAndSwap(other), memcache.ErrCASConflict),
		holds(c, "go:cas", []byte("mine"), 123),
		c.Delete("go:cas"),
		is(c.CompareAndSwap(other), memcache.ErrCacheMiss),
	)
}

func counters(c *memcache.Client) error {
	if err := c.Set(item("go:n", "10")); err != nil {
		return err
	}
	up, upErr := c.Increment("go:n", 32)
	down, downErr := c.Decrement("go:n", 2)
	floor, floorErr := c.Decrement("go:n", 1000)
	_, absent := c.Increment("go:absent", 1)
	if err := first(upErr, downErr, floorErr, is(absent, memcache.ErrCacheMiss)); err != nil {
		return err
	}
	if up != 42 || down != 40 || floor != 0 {
		return fmt.Errorf("wanted 42, 40, 0, got %d, %d, %d", up, down, floor)
	}
	if err := c.Set(item("go:n", "text")); err != nil {
		return err
	}
	if _, err := c.Increment("go:n", 1); err == nil || !strings.Contains(err.Error(), "non-numeric") {
		return fmt.Errorf("wanted an error that says non-numeric, got %v", err)
	}
	return nil
}

func multi(c *memcache.Client) error {
	keys := []string{"go:absent"}
	for i := 0; i < 300; i++ {
		key := "go:m" + strconv.Itoa(i)
		keys = append(keys, key)
		if err := c.Set(&memcache.Item{Key: key, Value: everyByte(i * 10), Flags: uint32(i)}); err != nil {
			return err
		}
	}
	items, err := c.GetMulti(keys)
	if err != nil {
		return err
	}
	if len(items) != 300 {
		return fmt.Errorf("wanted 300 items, got %d", len(items))
	}
	for i := 0; i < 300; i++ {
		got := items["go:m"+strconv.Itoa(i)]
		if got == nil || !bytes.Equal(got.Value, everyByte(i*10)) || got.Flags != uint32(i) {
			return fmt.Errorf("item %d is wrong", i)
		}
	}
	return nil
}

func sizes(c *memcache.Client) error {
	for _, size := range []int{0, 1, 100, 4096, 65536, 300001, 1000000} {
		value := everyByte(size)
		if err := first(c.Set(&memcache.Item{Key: "go:size", Value: value}), holds(c, "go:size", value, 0)); err != nil {
			return err
		}
	}
	if err := c.Set(&memcache.Item{Key: "go:big", Value: everyByte(1 << 20)}); err == nil {
		return errors.New("a value above the limit was stored")
	}
	return first(misses(c, "go:big"), is(c.Set(item(strings.Repeat("k", 251), "x")), memcache.ErrMalformedKey))
}

func expiry(c *memcache.Client) error {
	brief := func(key string) *memcache.Item { return &memcache.Item{Key: key, Value: []byte("x"), Expiration: 1} }
	if err := first(c.Set(brief("go:soon")), c.Set(brief("go:kept")), c.Set(brief("go:got"))); err != nil {
		return err
	}
	_, err := c.GetAndTouch("go:got", 1000)
	if err := first(err, c.Touch("go:kept", 1000), is(c.Touch("go:absent", 1000), memcache.ErrCacheMiss)); err != nil {
		return err
	}
	deadline := time.Now().Add(expirySecondsMax * time.Second)
	for misses(c, "go:soon") != nil {
		if time.Now().After(deadline) {
			return errors.New("go:soon never expires")
		}
		time.Sleep(20 * time.Millisecond)
	}
	gone := &memcache.Item{Key: "go:gone", Value: []byte("x"), Expiration: -1}
	return first(holds(c, "go:kept", []byte("x"), 0), holds(c, "go:got", []byte("x"), 0), c.Set(gone), misses(c, "go:gone"))
}

func parallel(c *memcache.Client) error {
	if err := c.Set(item("go:shared", "0")); err != nil {
		return err
	}
	var group sync.WaitGroup
	problems := make(chan error, 16)
	for worker := 0; worker < 16; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 100; i++ {
				if _, err := c.Increment("go:shared", 1); err != nil {
					problems <- err
					return
				}
			}
		}()
	}
	group.Wait()
	close(problems)
	return first(<-problems, holds(c, "go:shared", []byte("1600"), 123))
}

func flushAll(c *memcache.Client) error {
	return first(c.Ping(), c.Set(item("go:f", "1")), c.FlushAll(), misses(c, "go:f"), c.Set(item("go:f", "2")),
		holds(c, "go:f", []byte("2"), 123), c.DeleteAll(), misses(c, "go:f"), c.Close())
}

func main() {
	run("set, get, delete", setGetDelete)
	run("add, replace, append, prepend", conditional)
	run("compare and swap", compareAndSwap)
	run("increment, decrement", counters)
	run("get multi", multi)
	run("sizes and limits", sizes)
	run("expiry, touch, get and touch", expiry)
	run("increments from sixteen goroutines add up", parallel)
	run("ping, flush all, delete all, close", flushAll)
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
