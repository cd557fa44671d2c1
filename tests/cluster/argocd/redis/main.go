// A Redis for Argo CD, which keeps its caches there: miniredis, the one that `argocd --core` runs in itself.
package main

import (
	"log"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: redis ADDRESS")
	}
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(os.Args[1]); err != nil {
		log.Fatal(err)
	}
	// Its clock stands still by itself: keys would never expire.
	const tick = time.Second
	for range time.Tick(tick) {
		server.FastForward(tick)
	}
}
