// The search runs in a worker, which browsers refuse to pages opened from a disk. There it runs in
// a hidden frame instead: a frame that the page has written may load scripts beside the page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.ready = new Promise((resolve) => {
        document.addEventListener("DOMContentLoaded", () => this.start(url, resolve))
        if (document.readyState !== "loading") this.start(url, resolve)
      })
      window.addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      })
    }

    start(url, resolve) {
      if (this.frame.isConnected) return
      document.body.append(this.frame)
      const inside = this.frame.contentDocument
      inside.open()
      inside.write(
        "<script>postMessage = (data) => parent.postMessage(data, '*')</script>" +
          `<script src="${url}"></script>`
      )
      inside.close()
      this.frame.contentWindow.addEventListener("load", resolve)
    }

    postMessage(data) {
      this.ready.then(() => {
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
      })
    }

    terminate() {
      this.frame.remove()
    }
  }
}
